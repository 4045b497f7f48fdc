package main

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/porttest"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// TestScript runs testdata/*.txtar against the program. Beside the commands of testscript
// they have `get STATUS URL FILE`, which asks until it gets that status and puts the body
// into FILE. The addresses $GATEWAY, $API, $GRPC, $RESP, $ADMIN and $UNUSED are free, and
// that of $TAKEN is not. Other interfaces listen on free ports.
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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"get": get},
	})
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: get STATUS URL FILE")
	}
	var last string
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		res, err := http.Get(args[1])
		if err != nil {
			last = err.Error()
			continue
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if last = strconv.Itoa(res.StatusCode); err == nil && last == args[0] {
			ts.Check(os.WriteFile(ts.MkAbs(args[2]), body, 0o600))
			return
		}
	}
	ts.Fatalf("%s: %s, want %s", args[1], last, args[0])
}
