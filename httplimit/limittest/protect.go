package limittest

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakeprotect"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// testProtect checks which result of a request a protection gets, and the response to a rejected
// request.
func testProtect(t *testing.T, a Adapter) {
	breaker, bulkhead := fakeprotect.New("breaker"), fakeprotect.New("bulkhead")
	bulkhead.Whole = true
	store, _ := Store(t)
	more := make(chan struct{})
	url := a.Serve(t, App{
		Recover: true,
		Protect: httplimit.ProtectConfig{Chain: protect.New(protect.Config{Protections: []protect.Protection{breaker, bulkhead}})},
		Limit:   Middleware(t, store, httplimit.Config{}, policy.Config{Name: "p", Match: policy.Match{Paths: []string{"/denied"}}, Block: true}),
		Endpoints: []Endpoint{
			{Method: "GET", Path: "/ok", Handle: func() Response { return Response{Body: "x"} }},
			{Method: "GET", Path: "/empty", Handle: func() Response { return Response{} }},
			{Method: "GET", Path: "/fails", Handle: func() Response { return Response{Status: 500} }},
			{Method: "GET", Path: "/panics", Handle: func() Response { panic("of the handler") }},
			{Method: "GET", Path: "/denied", Handle: func() Response { return Response{} }},
			{Method: "GET", Path: "/stream", Handle: func() Response {
				return Response{Events: []string{event("1"), event("6")}, Flushed: func() { <-more }}
			}},
		},
	})
	for _, c := range []struct {
		path, want string
		status     int
	}{
		{"/ok", "ok", 200}, {"/empty", "ok", 200}, {"/fails", "failed", 500}, {"/panics", "failed", 500}, {"/denied", "not made", 403}, {"/none", "ok", 404},
	} {
		if r := Do(t, "GET", url+c.path); r.Status != c.status && c.want != "not made" || r.Header.Get(httplimit.ProtectionField) != "" {
			t.Errorf("%s: %d, want %d", c.path, r.Status, c.status)
		}
		if !breaker.Entered() {
			t.Fatalf("%s: not protected: want App.Protect in front of App.Limit", c.path)
		}
		breaker.Want(t, c.want)
		bulkhead.Ended()
	}
	res, err := http.Get(url + "/stream") // returns when the first event was flushed
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	in := bufio.NewReader(res.Body)
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	breaker.Want(t, "ok")
	bulkhead.None(t)
	close(more)
	if _, err := io.ReadAll(in); err != nil {
		t.Fatal(err)
	}
	bulkhead.Ended()

	bulkhead.Refuse = &protect.Refused{Reason: errors.New("full"), RetryAfter: 10 * time.Second}
	r := Do(t, "GET", url+"/ok")
	breaker.Want(t, "not made")
	retry := r.Header.Get("Retry-After")
	if r.Status != 503 || r.Header.Get(httplimit.ProtectionField) != "bulkhead" || retry != "10" && retry != "11" ||
		r.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(r.Body, `"protection":"bulkhead"`) {
		t.Errorf("rejected: %d %v %s, want 503 by the bulkhead", r.Status, r.Header, r.Body)
	}
}
