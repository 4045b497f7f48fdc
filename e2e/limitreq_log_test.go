package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
)

// A reqSeen is a logged decision, in the values of $limit_req_status; "-" means no limit.
type reqSeen struct {
	at     int64 // ms since the epoch; for nginx, as precise as its log
	status string
	delay  int64 // ms
}

// rank orders decisions within one millisecond: a limit admits, then delays, then refuses.
func (s reqSeen) rank() int64 {
	switch {
	case strings.HasPrefix(s.status, "REJECTED"):
		return 1 << 40
	case strings.HasPrefix(s.status, "DELAYED"):
		return 1 + s.delay
	}
	return 0
}

var (
	accessLine = regexp.MustCompile(`^(\S+) (\d+)\.(\d{3}) (\d+)\.(\d{3}) (\d+) (\S+)$`)
	delayLine  = regexp.MustCompile(`delaying request(?:, dry run)?, excess: (\d+)\.(\d{3}), by zone "([^"]+)".* request: "GET (\S+) `)
)

// nginxSeen returns the decisions of nginx by path. It computes the delay from the logged
// excess, as nginx does.
func nginxSeen(t *testing.T, s *nginxtest.Server, all []reqScenario) map[string]reqSeen {
	t.Helper()
	uses := map[string]map[string]reqUse{} // by path of the location, by zone
	for i, one := range all {
		for name, p := range one.places {
			of := map[string]reqUse{}
			for _, u := range p.uses {
				of[u.zone] = u
			}
			uses[fmt.Sprintf("/%d/%s/", i, name)] = of
		}
	}
	delays := map[string]int64{}
	for _, m := range delayLine.FindAllStringSubmatch(s.Log(), -1) {
		whole, _ := strconv.ParseInt(m[1]+m[2], 10, 64)
		u := uses[m[4][:strings.LastIndex(m[4], "/")+1]][m[3]]
		r := u.limit(t)
		delays[m[4]] = (whole - r.free*1000) * 1000 / r.rate()
	}
	seen := map[string]reqSeen{}
	awaitLines(t, filepath.Join(s.Dir, "limited.log"), all, func(line string) (path string) {
		m := accessLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("nginx logged %q", line)
		}
		ended, _ := strconv.ParseInt(m[2]+m[3], 10, 64)
		took, _ := strconv.ParseInt(m[4]+m[5], 10, 64)
		seen[m[1]] = reqSeen{ended - took, m[7], delays[m[1]]}
		return m[1]
	})
	return seen
}

// weirSeen returns the decisions of the gateway by path.
func weirSeen(t *testing.T, log string, all []reqScenario) map[string]reqSeen {
	t.Helper()
	seen := map[string]reqSeen{}
	limited := 0
	for _, s := range all {
		for _, c := range s.calls {
			if !s.unlimited(c) {
				limited++
			}
		}
	}
	read := func(line string) {
		var d struct {
			At                        time.Time
			Msg, Outcome, Delay, Path string
			Shadow                    bool
			Suppressed                int
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Msg != "decision" {
			return
		}
		if d.Suppressed > 0 {
			t.Fatalf("the log suppressed %d lines", d.Suppressed)
		}
		one := reqSeen{at: d.At.UnixMilli(), status: "PASSED"}
		if delay, err := time.ParseDuration(d.Delay); err == nil {
			one.status, one.delay = "DELAYED", delay.Milliseconds()
		}
		if d.Outcome == "denied" {
			one.status, one.delay = "REJECTED", 0
		}
		if d.Shadow && one.status != "PASSED" {
			one.status += "_DRY_RUN"
		}
		before, ok := seen[d.Path]
		if ok { // of several policies
			one.at = min(one.at, before.at)
			if before.rank() > one.rank() {
				one.status, one.delay = before.status, before.delay
			}
		}
		seen[d.Path] = one
	}
	poll(t, "the log of the gateway", func() bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		clear(seen)
		for line := range strings.Lines(string(text)) {
			read(line)
		}
		return len(seen) >= limited
	})
	for i, s := range all {
		for j, c := range s.calls {
			if path := fmt.Sprintf("/%d/%s/%d", i, c.place, j); s.unlimited(c) {
				seen[path] = reqSeen{status: "-"}
			}
		}
	}
	return seen
}

// unlimited reports whether no limit has a key for a call.
func (s *reqScenario) unlimited(c reqCall) bool {
	for _, u := range s.places[c.place].uses {
		if u.of(c) != "" {
			return false
		}
	}
	return true
}

// awaitLines waits until a log has a line for every request.
func awaitLines(t *testing.T, log string, all []reqScenario, read func(line string) string) {
	t.Helper()
	want := 0
	for _, s := range all {
		want += len(s.calls)
	}
	poll(t, "the log of nginx", func() bool {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		paths := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			if strings.HasSuffix(line, "\n") {
				paths[read(strings.TrimSpace(line))] = true
			}
		}
		return len(paths) >= want
	})
}

// poll waits for up to a minute until ok holds.
func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s does not have every request", what)
		}
	}
}
