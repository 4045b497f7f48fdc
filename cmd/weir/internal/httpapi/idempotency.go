package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/floodweir/weir"
)

// An idempotency key is remembered where tokens are: as two limits of one per day,
// each of which a question with the key takes, together with what it asks for, all
// or nothing. One is of the key, the other of the key and the question. So there is
// no instant at which the charge is made and not remembered, or remembered and not
// made; a denied question leaves nothing; and a process that dies in between leaves
// either both or none. If the second limit denies, the question was admitted before;
// if only the first does, another question was.

const (
	idempotencyHeader = "Idempotency-Key"
	maxIdempotencyKey = 256

	// memories are the requests that remember a key.
	memories = 2
)

// memory is the limit that remembers. It is full again a day after it was taken.
func memory() weir.Limit { return weir.MustLimit("1/24h fixed_window") }

var (
	errOtherQuestion = errors.New("the idempotency key was that of another question within the last 24 hours")

	// errForgetful: without its store nobody knows whether a key is new.
	errForgetful = errors.New("the store was not asked, so that an idempotency key says nothing")
)

// idempotencyKey is the key that r gives its question, or "" if there is none or the
// question may be repeated anyway.
func (in inquiry) idempotencyKey(r *http.Request) (string, error) {
	lines := r.Header[idempotencyHeader]
	if len(lines) == 0 || !in.batch && repeatable(in.questions[0].verb) {
		return "", nil
	}
	want := fmt.Sprintf("one key of 1 to %d visible ASCII characters, such as a UUID", maxIdempotencyKey)
	key := lines[0]
	if len(lines) > 1 {
		return "", refuse(idempotencyHeader, []byte(strconv.Itoa(len(lines))+" of them"), want)
	}
	visible := key != "" && len(key) <= maxIdempotencyKey
	for i := 0; i < len(key) && visible; i++ {
		visible = key[i] > ' ' && key[i] <= '~'
	}
	if !visible {
		return "", refuse(idempotencyHeader, []byte(key), want)
	}
	for _, q := range in.questions {
		switch q.verb {
		case weir.Take, weir.Charge, weir.Return:
		default:
			return "", refuse(idempotencyHeader, []byte(q.verb.String()),
				"take, charge or return with it: what another verb answered is not remembered")
		}
	}
	if len(in.rs)+memories > weir.MaxBatch {
		return "", refuse(idempotencyHeader, []byte(strconv.Itoa(len(in.rs))+" limits"),
			fmt.Sprintf("at most %d with it", weir.MaxBatch-memories))
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
func (a *API) once(ctx context.Context, key string, in inquiry, ds []weir.Decision) (replayed bool, err error) {
	rs := make([]weir.Request, 0, memories+len(in.rs))
	for _, name := range []string{"weir:idempotency:key|" + key, "weir:idempotency:question|" + key + "|" + in.digest()} {
		rs = append(rs, weir.Request{Verb: weir.Take, Key: name, Limit: memory(), N: 1})
	}
	rs = append(rs, in.rs...)
	all := make([]weir.Decision, len(rs))
	ok, err := a.store.DoAll(ctx, rs, all)
	copy(ds, all[memories:])
	switch {
	case err != nil || ok:
		return false, err
	case all[0].OK && all[1].OK:
		return false, nil // denied by what was asked for
	case all[0].Degraded != weir.Exact || all[1].Degraded != weir.Exact:
		return false, errForgetful
	case all[1].OK:
		return false, errOtherQuestion
	}
	return true, a.restate(ctx, in.rs, ds)
}

// restate is the decisions about requests that were admitted before: what they
// granted, and what is left now.
func (a *API) restate(ctx context.Context, rs []weir.Request, ds []weir.Decision) error {
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
func (in inquiry) digest() string {
	h := sha256.New()
	for _, q := range in.questions {
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
