package algo_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// TestLimitReqTraces checks that the rule decides as a real nginx did at recorded
// instants. Each file in testdata/limit_req has a rate, burst and delay in nginx's
// terms. For each request it has the instant, PASSED, DELAYED or REJECTED, and the
// delay, with times in ms. The comparison with nginx in package e2e writes the files.
func TestLimitReqTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/limit_req/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v, want at least 10", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var rule *algo.LimitReq
		var state []int64
		requests := 0
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			switch fields[0] {
			case "#":
				continue
			case "limit_req":
				if rule, err = parseLimitReq(fields[1:]); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			at, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var r algo.Result
			state, r = rule.Do(state, algo.Ask{Op: algo.Take, Now: start + at*1000, N: 1})
			got := fmt.Sprintf("%d PASSED 0", at)
			switch {
			case !r.OK:
				got = fmt.Sprintf("%d REJECTED 0", at)
			case r.Delay > 0:
				got = fmt.Sprintf("%d DELAYED %d", at, r.Delay/1000)
			}
			if requests++; got != strings.TrimSpace(line) {
				t.Errorf("%s: request %d: %s, nginx did %s", name, requests, got, line)
			}
		}
		if requests < 3 {
			t.Errorf("%s: %d requests", name, requests)
		}
	}
}

// parseLimitReq reads rate=10r/s burst=5 delay=2 or nodelay.
func parseLimitReq(words []string) (*algo.LimitReq, error) {
	q, count, period, burst := algo.Queueing{Queue: true}, int64(0), int64(second), int64(0)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if name == "nodelay" {
			q.Queue = false
			continue
		}
		if strings.HasSuffix(value, "r/m") {
			period = 60 * second
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSuffix(value, "r/m"), "r/s"), 10, 64)
		if err != nil {
			return nil, err
		}
		switch name {
		case "rate":
			count = n
		case "burst":
			burst = n
		case "delay":
			q.Free = n
		}
	}
	if q.Free >= burst {
		q = algo.Queueing{}
	}
	return algo.NewLimitReq(count, period, burst, q)
}
