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

// An idempotency key is remembered where tokens are: as two limits of one per day under
// a name made of the key, which a question with it asks together with its own, all or
// nothing. Of the first it reserves the one token under a digest of the question: again
// for the same question, and denied for any other. Of the second it takes the one token:
// if that is denied, the question was admitted before. So there is no instant at which
// the charge is made and not remembered, or remembered and not made; a denied question
// leaves nothing; and a process that dies in between leaves either all or none. (In a
// cluster the question's own keys are elsewhere: see the package's guarantees.)

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 256

	// memories are the requests that remember a key.
	keyRequestCount = 2
)

// remembered is how long a key is: then both limits are as never used.
const keyTTL = 24 * time.Hour

// memory is what a question asks beside its own requests, under one name, so that a
// cluster keeps both in one place.
func (in batch) keyRequests(key string) [keyRequestCount]weir.Request {
	name := "weir:idempotency|" + key
	return [keyRequestCount]weir.Request{
		{Verb: weir.Reserve, Key: name, Limit: weir.MustLimit("1/24h"), N: 1, ID: in.digest(), TTL: keyTTL},
		{Verb: weir.Take, Key: name, Limit: weir.MustLimit("1/24h fixed_window"), N: 1},
	}
}

var (
	errKeyReused = errors.New("the idempotency key was that of another question within the last 24 hours")

	// errForgetful: without its store nobody knows whether a key is new.
	errKeyUnknown = errors.New("the store was not asked, so that an idempotency key says nothing")
)

// idempotencyKey is the key that r gives its question, or "" if there is none or the
// question may be repeated anyway.
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
				"take, charge or return with it: what another verb answered is not remembered")
		}
	}
	if len(in.rs)+keyRequestCount > bounds.MaxBatch {
		return "", invalid(idempotencyHeader, []byte(strconv.Itoa(len(in.rs))+" limits"),
			fmt.Sprintf("at most %d with it", bounds.MaxBatch-keyRequestCount))
	}
	return key, nil
}

// repeatable reports whether asking twice does what asking once does.
func repeatable(v weir.Verb) bool {
	switch v {
	case weir.Peek, weir.Reset, weir.Reserve, weir.Commit, weir.Cancel:
		return true
	}
	return false
}

// once decides in, unless it was admitted under the key before: then it charges
// nothing, reports true, and the decisions say how things stand now.
func (a *API) decideOnce(ctx context.Context, key string, in batch, ds []weir.Decision) (replayed bool, err error) {
	memory := in.keyRequests(key)
	rs := append(append(make([]weir.Request, 0, keyRequestCount+len(in.rs)), memory[:]...), in.rs...)
	all := make([]weir.Decision, len(rs))
	ok, err := a.store.DoAll(ctx, rs, all)
	copy(ds, all[keyRequestCount:])
	question, charge := all[0], all[1]
	switch {
	case err != nil || ok || question.OK && charge.OK: // or denied by what was asked for
		return false, err
	case question.Degraded != "" || charge.Degraded != "":
		return false, errKeyUnknown
	case !question.OK:
		return false, errKeyReused
	}
	return true, a.replay(ctx, in.rs, ds)
}

// restate is the decisions about requests that were admitted before: what they
// granted, and what is left now.
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

// digest tells questions apart. Every text carries its length, so that none can look
// like two.
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
