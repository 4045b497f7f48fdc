package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/porttest"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main, "ratelimit": main})
}

// TestScript runs testdata/*.txtar against the program. It has three commands beside those
// of testscript:
//
//   - `get STATUS URL FILE` asks until it gets that status and puts the body into FILE.
//   - `await FILE URL` asks until the body is that of FILE.
//   - `env-port NAME ADDRESS` sets NAME to the port of an address.
//
// The addresses $GATEWAY, $API, $GRPC, $RESP, $ADMIN and $UNUSED are free, and that of
// $TAKEN is not. Other interfaces listen on free ports.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"GATEWAY", "API", "GRPC", "RESP", "ADMIN", "UNUSED", "TAKEN"} {
				e.Setenv(name, porttest.Address(t))
			}
			l, err := porttest.Listen(e.Getenv("TAKEN"))
			if err != nil {
				return err
			}
			e.Defer(func() { l.Close() })
			e.Setenv("WEIR_SERVER", "http://"+e.Getenv("API"))
			for _, door := range []string{"GRPC", "RESP", "ADMIN"} {
				e.Setenv("WEIR_LISTEN_"+door, "127.0.0.1:0")
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"get": get, "await": await, "env-port": envPort},
	})
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: get STATUS URL FILE")
	}
	body := ask(ts, args[1], args[0], func(status string, _ []byte) string { return status })
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), body, 0o600))
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE URL")
	}
	ask(ts, args[1], ts.ReadFile(args[0]), func(_ string, body []byte) string { return string(body) })
}

func envPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: env-port NAME ADDRESS")
	}
	_, port, err := net.SplitHostPort(args[1])
	ts.Check(err)
	ts.Setenv(args[0], port)
}

// ask asks url until of returns want for the response, and returns its body.
func ask(ts *testscript.TestScript, url, want string, of func(status string, body []byte) string) []byte {
	var last string
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		res, err := http.Get(url)
		if err != nil {
			last = err.Error()
			continue
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if last = of(strconv.Itoa(res.StatusCode), body); err == nil && last == want {
			return body
		}
	}
	ts.Fatalf("%s: %s, want %s", url, last, want)
	return nil
}
