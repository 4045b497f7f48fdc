package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
)

// An idempotency key is stored as two limits of one per day, under a name made of the
// key. A request with the key sends them to the store together with its own requests, all
// or nothing.
//
// On the first limit it reserves the token, with a digest of the request as ID. The
// reservation succeeds again for the same request and is denied for another. On the
// second limit it takes the token. If that is denied, the request was admitted before.
//
// So the charge and the record are one step. A denied request leaves no record, and a
// process that dies leaves both or neither. (In a Redis Cluster the keys are in different
// slots: see the guarantees of the package.)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 256

	// keyRequestCount is the number of requests that record a key.
	keyRequestCount = 2
)

// keyTTL is the lifetime of a key: after it, both limits are as if never used.
const keyTTL = 24 * time.Hour

// keyRequests returns the requests that record key. They have one name, so a cluster
// keeps both in one slot.
func (in batch) keyRequests(key string) [keyRequestCount]weir.Request {
	name := "weir:idempotency|" + key
	return [keyRequestCount]weir.Request{
		{Verb: weir.Reserve, Key: name, Limit: weir.MustLimit("1/24h"), N: 1, ID: in.digest(), TTL: keyTTL},
		{Verb: weir.Take, Key: name, Limit: weir.MustLimit("1/24h fixed_window"), N: 1},
	}
}

var (
	errKeyReused = errors.New("the idempotency key was used with another request in the last 24 hours")

	// errKeyUnknown means that the store was unavailable, so the key may be new or not.
	errKeyUnknown = errors.New("store unavailable: idempotency key not checked")
)

// idempotencyKey returns the idempotency key of r. It is "" if there is none, or if a
// repeated request has no further effect.
func (in batch) idempotencyKey(r *http.Request) (string, error) {
	lines := r.Header[idempotencyHeader]
	if len(lines) == 0 || !in.multiple && repeatable(in.items[0].verb) {
		return "", nil
	}
	want := fmt.Sprintf("one key of 1 to %d visible ASCII characters, such as a UUID", maxIdempotencyKey)
	key := lines[0]
	if len(lines) > 1 {
		return "", invalid(idempotencyHeader, []byte(strconv.Itoa(len(lines))+" of them"), want)
	}
	visible := key != "" && len(key) <= maxIdempotencyKey
	for i := 0; i < len(key) && visible; i++ {
		visible = key[i] > ' ' && key[i] <= '~'
	}
	if !visible {
		return "", invalid(idempotencyHeader, []byte(key), want)
	}
	for _, q := range in.items {
		switch q.verb {
		case weir.Take, weir.Charge, weir.Return:
		default:
			return "", invalid(idempotencyHeader, []byte(q.verb.String()),
				"take, charge or return: other verbs do not record the key")
		}
	}
	if len(in.rs)+keyRequestCount > bounds.MaxBatch {
		return "", invalid(idempotencyHeader, []byte(strconv.Itoa(len(in.rs))+" limits"),
			fmt.Sprintf("at most %d with it", bounds.MaxBatch-keyRequestCount))
	}
	return key, nil
}

// repeatable reports whether a repeated request has no further effect.
func repeatable(v weir.Verb) bool {
	switch v {
	case weir.Peek, weir.Reset, weir.Reserve, weir.Commit, weir.Cancel:
		return true
	}
	return false
}

// decideOnce decides b, unless a request with the key was admitted before: then it
// charges nothing, returns true, and ds describes the current state.
func (a *API) decideOnce(ctx context.Context, key string, in batch, ds []weir.Decision) (replayed bool, err error) {
	memory := in.keyRequests(key)
	rs := append(append(make([]weir.Request, 0, keyRequestCount+len(in.rs)), memory[:]...), in.rs...)
	all := make([]weir.Decision, len(rs))
	ok, err := a.store.DoAll(ctx, rs, all)
	copy(ds, all[keyRequestCount:])
	record, charge := all[0], all[1]
	switch {
	case err != nil || ok || record.OK && charge.OK: // or denied by the limits of the request itself
		return false, err
	case record.Degraded != "" || charge.Degraded != "":
		return false, errKeyUnknown
	case !record.OK:
		return false, errKeyReused
	}
	return true, a.replay(ctx, in.rs, ds)
}

// replay fills ds for requests that were admitted before: what they granted, and what
// remains now.
func (a *API) replay(ctx context.Context, rs []weir.Request, ds []weir.Decision) error {
	looks := make([]weir.Request, len(rs))
	for i, r := range rs {
		r.Verb, r.N = weir.Peek, 0
		looks[i] = r
	}
	if _, err := a.store.DoAll(ctx, looks, ds); err != nil {
		return err
	}
	for i := range ds {
		ds[i].OK, ds[i].RetryAfter = true, 0
		if rs[i].Verb != weir.Return {
			ds[i].Granted = rs[i].N
		}
	}
	return nil
}

// digest identifies a request. Every string carries its length, so different requests
// have different encodings.
func (in batch) digest() string {
	h := sha256.New()
	for _, q := range in.items {
		fmt.Fprintf(h, "%d %d %v %d %q %d ", q.verb, q.n, q.hasN, q.at.UnixMicro(), q.policy, len(q.key))
		for _, k := range q.key {
			fmt.Fprintf(h, "%d:%s ", len(k), k)
		}
		for _, l := range q.limits {
			fmt.Fprintf(h, "%q ", l.String())
		}
		fmt.Fprintln(h)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
