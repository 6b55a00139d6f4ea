package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"
)

// An application that has its data in OpenSearch: it writes orders and searches for them, and counts how that went.
func shop(arguments []string) error {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	server := flags.String("opensearch", "", "URL")
	index := flags.String("index", "orders", "its index")
	searches := flags.Float64("searches", 10, "per second")
	writes := flags.Float64("writes", 5, "per second")
	listen := flags.String("listen", ":8080", "where GET /counts is answered")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	client := &http.Client{Timeout: 10 * time.Second}
	if err := makeIndex(client, *server+"/"+*index); err != nil {
		return err
	}
	all := map[string]*counts{"search": {}, "write": {}}
	send := func(kind, method, path string, body any) {
		at := time.Now()
		err := request(client, method, *server+path, body)
		took := time.Since(at)
		all[kind].add(took, err)
		line := map[string]any{"at": float64(at.UnixMicro()) / 1e6, "op": kind, "ok": err == nil, "ms": took.Milliseconds()}
		if err != nil {
			line["why"] = err.Error()
		}
		say(line)
	}
	go openLoop(*searches, func(number int) {
		query := map[string]any{"size": 5, "query": map[string]any{"term": map[string]any{"item": number % 5}}}
		send("search", "POST", "/"+*index+"/_search", query)
	})
	go openLoop(*writes, func(number int) {
		// a ring, so that the index does not grow for ever
		send("write", "PUT", fmt.Sprintf("/%s/_doc/%d", *index, number%2000), map[string]any{"n": number, "item": number % 5})
	})
	http.HandleFunc("/counts", answer(all))
	return http.ListenAndServe(*listen, nil)
}

// Make the index where it is not there: users begin when the application has its data. A pod that fails is started again.
func makeIndex(client *http.Client, url string) error {
	got, err := client.Head(url)
	if err != nil {
		return err
	}
	got.Body.Close()
	if got.StatusCode == http.StatusOK {
		return nil
	}
	settings := map[string]any{"number_of_shards": 1, "number_of_replicas": 1}
	return request(client, "PUT", url+"?wait_for_active_shards=all", map[string]any{"settings": settings})
}

// Send a request, and read the whole answer. An answer whose status is not 2xx, or that shards are missing from, is an error.
func request(client *http.Client, method, url string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	asked, err := http.NewRequest(method, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	asked.Header.Set("Content-Type", "application/json")
	got, err := client.Do(asked)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	said, err := io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	if got.StatusCode/100 != 2 {
		return fmt.Errorf("HTTP %d", got.StatusCode)
	}
	var whole struct {
		TimedOut bool                 `json:"timed_out"`
		Shards   struct{ Failed int } `json:"_shards"`
	}
	if err := json.Unmarshal(said, &whole); err != nil {
		return err
	}
	if method == "POST" && (whole.TimedOut || whole.Shards.Failed > 0) {
		return fmt.Errorf("a part of the answer is missing: %d shards failed", whole.Shards.Failed)
	}
	return nil
}
