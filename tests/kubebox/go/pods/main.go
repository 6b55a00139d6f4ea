// The box's own small programs, by their first argument: of the standard library alone.
package main

import (
	"fmt"
	"os"
)

func main() {
	programs := map[string]func([]string) error{"init": supervise, "pause": pause, "shop": shop, "neighbour": neighbour}
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "name a program: init, pause, shop or neighbour")
		os.Exit(2)
	}
	if err := programs[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
