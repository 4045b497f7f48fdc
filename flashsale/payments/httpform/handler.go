package httpform

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/signing"
)

// Handler serves the calls of a Client from p: /create, /query, /close and /refund. It refuses
// what keys have not signed.
func Handler(p payments.Payments, keys Keys) http.Handler {
	mux := http.NewServeMux()
	handle(mux, keys, "create", func(ctx context.Context, o payments.Order) (any, error) { return p.Create(ctx, o) })
	handle(mux, keys, "query", func(ctx context.Context, in refJSON) (any, error) { return p.Query(ctx, in.Ref) })
	handle(mux, keys, "close", func(ctx context.Context, in refJSON) (any, error) { return struct{}{}, p.Close(ctx, in.Ref) })
	handle(mux, keys, "refund", func(ctx context.Context, in refundJSON) (any, error) {
		state, err := p.Refund(ctx, in.Ref, in.Amount, in.Key)
		return stateJSON{state}, err
	})
	return mux
}

func handle[T any](mux *http.ServeMux, keys Keys, name string, call func(context.Context, T) (any, error)) {
	mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			reply(w, http.StatusBadRequest, errorJSON{"body"})
			return
		}
		if _, err := signing.Verify(r.Header, body, time.Now(), keys()...); err != nil {
			reply(w, http.StatusForbidden, errorJSON{"forged"})
			return
		}
		var in T
		if err := json.Unmarshal(body, &in); err != nil {
			reply(w, http.StatusBadRequest, errorJSON{"body: " + err.Error()})
			return
		}
		out, err := call(r.Context(), in)
		switch {
		case err == nil:
			reply(w, http.StatusOK, out)
		case errors.Is(err, payments.ErrNotFound):
			reply(w, http.StatusNotFound, errorJSON{"not_found"})
		case errors.Is(err, payments.ErrPaid):
			reply(w, http.StatusConflict, errorJSON{"paid"})
		case errors.Is(err, payments.ErrRefused):
			reply(w, http.StatusUnprocessableEntity, errorJSON{"refused"})
		default:
			reply(w, http.StatusServiceUnavailable, errorJSON{"unavailable"})
		}
	})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

// Report sends an event to the flash sale at url, .../api/payments/notify/NAME. An error means
// that it has to be sent again, with the same event ID.
func Report(ctx context.Context, client *http.Client, url string, e payments.Event, key signing.Secret) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	id := e.ID
	if id == "" {
		id = "msg_" + rand.Text()
	}
	signing.Sign(r.Header, id, time.Now(), body, key)
	res, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("payments: report: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("payments: report: status %d: %.200q", res.StatusCode, text)
	}
	return err
}
