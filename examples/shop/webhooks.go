package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/signing"
)

// webhooks returns the handler of the flash sale's webhooks. It verifies and logs them. An event
// can arrive again, with the same ID: a real shop stores the ID with what it does.
func webhooks(secret string) http.HandlerFunc {
	key, err := signing.Parse(secret)
	var mu sync.Mutex
	done := map[string]bool{}
	return func(w http.ResponseWriter, r *http.Request) {
		body, readErr := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil || readErr != nil {
			http.Error(w, "SHOP_WEBHOOK is not set, or the body is too large", http.StatusServiceUnavailable)
			return
		}
		id, err := signing.Verify(r.Header, body, time.Now(), key)
		if err != nil {
			http.Error(w, "the signature does not match", http.StatusForbidden)
			return
		}
		var e struct {
			Type string          `json:"type"`
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(body, &e); err != nil {
			http.Error(w, "want JSON", http.StatusBadRequest)
			return
		}
		mu.Lock()
		again := done[id]
		done[id] = true
		mu.Unlock()
		if !again {
			log.Printf("webhook %s: %s %s", id, e.Type, e.Data)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
