package load

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

func TestEventHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var l eventHeap
	var want []event
	for i := range 1000 {
		e := event{rng.Int64N(50), int32(i)}
		l.push(e)
		want = append(want, e)
	}
	slices.SortStableFunc(want, func(a, b event) int { return int(a.due - b.due) })
	for i, w := range want {
		if got := l.pop(); got != w {
			t.Fatalf("event %d = %v, want %v", i, got, w)
		}
	}
}

func TestAddresses(t *testing.T) {
	for n, want := range map[int]string{0: "10.0.0.0", 255: "10.0.0.255", 256: "10.0.1.0", 1<<24 - 1: "10.255.255.255"} {
		if got := string(address(nil, n)); got != want {
			t.Errorf("address %d = %s, want %s", n, got, want)
		}
	}
}

// FuzzResponse compares with encoding/json for valid bodies, and wants no panic for others.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		`{"state":"waiting","ahead":3,"poll_after_ms":1200,"place":"abc","view":{"phase":"open","poll_after_ms":7,"x":[{"phase":"no"}]},"held":[{"receipt":"r"}]}`,
		`{"reason":"sold_out","layer":"L0","retry_after_ms":12}`, ` { "token" : "a\"b" , "until":"x" } `, `{}`, `[]`, `{"a":`, `{"a":"\`, `{"state":null,"poll_after_ms":1e3}`,
		`{"poll_after_ms":-5}`, `{"poll_after_ms":99999999999999999999}`, `{"a":{"state":"no"},"b":[[{"reason":"no"}]]}`, "{\"a\":tru\xff}", `{"view":3,"state":{}}`, `{,}`, `{"a" "b"}`, `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var a response
		a.read(body)
		var want map[string]json.RawMessage
		if !utf8.Valid(body) || json.Unmarshal(body, &want) != nil || want == nil || bytes.ContainsAny(body, `\`) {
			return
		}
		if !a.complete {
			t.Fatalf("%q is an object", body)
		}
		got := map[string][]byte{"state": a.state, "place": a.place, "token": a.token, "receipt": a.receipt, "reason": a.reason, "layer": a.layer}
		for name, v := range got {
			var s string
			if json.Unmarshal(want[name], &s) == nil && bytes.Count(body, []byte(`"`+name+`"`)) == 1 && string(v) != s {
				t.Errorf("%s of %q = %q, want %q", name, body, v, s)
			}
		}
	})
}

// TestAllocations checks that a request allocates nothing.
func TestAllocations(t *testing.T) {
	body := []byte(`{"state":"waiting","ahead":3,"poll_after_ms":1200,"place":"abc","view":{"phase":"open","poll_after_ms":7}}`)
	w := &worker{clients: &clients{Config: Config{Sale: "s1", Addresses: 10}}, wire: wire{host: "127.0.0.1:1", out: make([]byte, 0, 4096)}}
	u := &user{cookie: []byte("abc"), place: []byte("def")}
	var a response
	var h measure.Histogram
	n := testing.AllocsPerRun(100, func() {
		w.out = w.render(w.out[:0], pollQueue, u, nil, nil)
		a.read(body)
		h.Add(time.Millisecond)
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
