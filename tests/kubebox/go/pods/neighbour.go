package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// A service of others that has nothing to do with OpenSearch: each of its pods asks every other one, and counts.
func neighbour(arguments []string) error {
	flags := flag.NewFlagSet("neighbour", flag.ContinueOnError)
	peers := flags.String("peers", "", "name whose addresses are the others")
	port := flags.String("port", "8080", "where all of them listen")
	rate := flags.Float64("rate", 5, "questions per second, to each")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	client := &http.Client{Timeout: 2 * time.Second}
	all := map[string]*counts{"peers": {}}
	go func() {
		// no name leads to pods before the first of them is ready: that is no failure
		for _, err := net.LookupHost(*peers); err != nil; _, err = net.LookupHost(*peers) {
			time.Sleep(100 * time.Millisecond)
		}
		openLoop(*rate, func(int) { askAll(client, all["peers"], *peers, *port) })
	}()
	http.HandleFunc("/counts", answer(all))
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "here") })
	return http.ListenAndServe(":"+*port, nil)
}

func askAll(client *http.Client, count *counts, peers, port string) {
	addresses, err := net.LookupHost(peers)
	if err != nil {
		count.add(0, err)
		return
	}
	for _, address := range addresses {
		at := time.Now()
		err := ask(client, "http://"+net.JoinHostPort(address, port)+"/")
		count.add(time.Since(at), err)
	}
}

func ask(client *http.Client, url string) error {
	got, err := client.Get(url)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		return err
	}
	if got.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d", got.StatusCode)
	}
	return nil
}
