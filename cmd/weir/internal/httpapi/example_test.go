package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/memstore"
)

func ExampleNew() {
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1_700_000_000_000_000 }})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	api, err := httpapi.New(httpapi.Config{Store: store})
	if err != nil {
		panic(err)
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/v1/take", strings.NewReader(`{"key": "user:42", "limit": "1/h"}`))
		r.Header.Set("Idempotency-Key", "8e03978e")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Print(w.Body)
	}
	// Output:
	// {"ok":true,"limit":"1/h burst 1","capacity":1,"granted":1,"remaining":0,"retry_after":0,"reset_after":3600,"at":"2023-11-14T22:13:20.000000Z"}
	// {"ok":true,"limit":"1/h burst 1","capacity":1,"granted":1,"remaining":0,"retry_after":0,"reset_after":3600,"at":"2023-11-14T22:13:20.000000Z","replayed":true}
}

func ExampleAnswer() {
	fmt.Printf("%s", httpapi.Answer("login", []weir.Decision{{OK: true, Limit: weir.MustLimit("5/m"), Granted: 1, Remaining: 4}}))
	// Output:
	// {"ok":true,"limit":"5/m burst 5","capacity":5,"granted":1,"remaining":4,"retry_after":0,"reset_after":0,"policy":"login","at":"0001-01-01T00:00:00.000000Z"}
}
