package e2e_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// minParallel is the least number of parallel tests: they wait for servers more than they
// compute. A test that measures a rate or a duration is not parallel.
const minParallel = 4

func TestMain(m *testing.M) {
	if addr := os.Getenv(slowUpstreamEnv); addr != "" {
		fmt.Fprintln(os.Stderr, serveSlowUpstream(addr))
		os.Exit(1)
	}
	if addr := os.Getenv(shareProcessEnv); addr != "" {
		fmt.Fprintln(os.Stderr, shareProcess(addr))
		os.Exit(1)
	}
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < minParallel {
		flag.Set("test.parallel", strconv.Itoa(minParallel))
	}
	os.Exit(m.Run())
}

// post sends a JSON body; fields are names and values of headers.
func post(t testing.TB, url, body string, fields ...string) (status int, media string, answer []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Content-Type"), answer
}
