package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"

	"github.com/floodweir/weir"
)

// TestLimitByBody checks limits by a field of the body: the upstream gets every admitted body
// unchanged, also one that is longer than the limits read.
func TestLimitByBody(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // HTTP/1 sends no response while it reads
		w.Write(body)
	})
	p, err := policy.New(policy.Config{Name: "login", Limits: []weir.Limit{weir.MustLimit("2/h")}, Key: []policy.KeyPart{{Source: policy.Form, Name: "email"}}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, h2 := range []bool{false, true} {
		m, err := httplimit.New(fakestore.Memory(t), set, httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		gw := start(t, gateway.Config{Limit: m.Wrap, Routes: []gateway.Route{{Upstream: up, MaxBody: 400_000}}})
		client := &http.Transport{Protocols: new(http.Protocols), ExpectContinueTimeout: patient}
		client.Protocols.SetHTTP1(!h2)
		client.Protocols.SetUnencryptedHTTP2(h2)
		defer client.CloseIdleConnections()
		long := "&x=" + strings.Repeat("0123456789", 30_000)
		for step, c := range []struct {
			body    string
			chunked bool
			expect  string
			want    int
		}{
			{"email=ada", false, "", 200},
			{"email=Ada", true, "100-continue", 200},
			{"email=ada&x=y", false, "100-continue", 429},
			{"email=bob", false, "100-continue", 200},
			{"email=ada" + long, false, "", 200}, // the bucket of requests without a value
			{"email=bob" + long, true, "100-continue", 200},
			{"email=eve" + long, true, "", 429},
			{"email=eve", false, "", 200},
		} {
			var body io.Reader = strings.NewReader(c.body)
			if c.chunked {
				body = io.MultiReader(body)
			}
			r := request(t, "POST", gw, body, "Content-Type", "application/x-www-form-urlencoded")
			if c.expect != "" {
				r.Header.Set("Expect", c.expect)
			}
			res, err := client.RoundTrip(r)
			if err != nil {
				t.Fatalf("h2 %v, step %d: %v", h2, step, err)
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != c.want || c.want == 200 && string(got) != c.body || (res.ProtoMajor == 2) != h2 {
				t.Errorf("h2 %v, step %d: %d with %d bytes, %v, want %d with %d bytes", h2, step, res.StatusCode, len(got), err, c.want, len(c.body))
			}
		}
	}
}
