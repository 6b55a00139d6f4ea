package main

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// What became of the requests that a program sent.
type counts struct {
	lock    sync.Mutex
	Sent    int     `json:"sent"`
	Failed  int     `json:"failed"`
	WorstMs float64 `json:"worst_ms"`
	Why     string  `json:"why,omitempty"`
}

func (c *counts) add(took time.Duration, err error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.Sent++
	c.WorstMs = max(c.WorstMs, float64(took.Microseconds())/1000)
	if err != nil {
		c.Failed++
		c.Why = err.Error()
	}
}

// A handler that answers with all counts by name.
func answer(all map[string]*counts) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for _, each := range all {
			each.lock.Lock()
			defer each.lock.Unlock()
		}
		json.NewEncoder(w).Encode(all)
	}
}

// Call a function so many times a second, each time on its own, at times that no answer changes; at most 200 at once.
func openLoop(rate float64, do func(number int)) {
	free := make(chan struct{}, 200)
	start := time.Now()
	for number := 0; ; number++ {
		time.Sleep(time.Until(start.Add(time.Duration(float64(number) / rate * float64(time.Second)))))
		free <- struct{}{}
		go func() {
			defer func() { <-free }()
			do(number)
		}()
	}
}
