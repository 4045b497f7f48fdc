package e2e_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/internal/algo"
)

// A reqLimit is a limit_req as a rule of package algo.
type reqLimit struct {
	*algo.LimitReq
	free int64 // requests without delay; with nodelay, more than any burst
}

// rate returns the rate in thousandths of a request per second.
func (l reqLimit) rate() int64 { return l.Params(0)[0] }

// limit parses a use.
func (u reqUse) limit(t *testing.T) reqLimit {
	t.Helper()
	count, period := int64(0), int64(1_000_000)
	number, ok := strings.CutSuffix(u.rate, "r/s")
	if !ok {
		number, period = strings.TrimSuffix(u.rate, "r/m"), 60_000_000
	}
	count, _ = strconv.ParseInt(number, 10, 64)
	var burst int64
	q := algo.Queueing{Queue: true}
	for word := range strings.FieldsSeq(u.words) {
		name, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "burst":
			burst = n
		case "delay":
			q.Free = n
		case "nodelay":
			q.Free = 1 << 40
		}
	}
	l := reqLimit{free: q.Free}
	if q.Free >= burst {
		q = algo.Queueing{}
	}
	var err error
	if l.LimitReq, err = algo.NewLimitReq(count, period, burst, q); err != nil {
		t.Fatal(err)
	}
	return l
}

// of returns the value of the key for a call.
func (u reqUse) of(c reqCall) string {
	if u.key == "$http_x_key" {
		return c.key
	}
	return "127.0.0.1"
}

// A reqModel decides the calls of a scenario as the source of nginx does.
type reqModel struct {
	places map[string][]reqLimit
	s      *reqScenario
	index  map[string]int // of a zone and a key, in the state
}

func newReqModel(t *testing.T, s *reqScenario) *reqModel {
	m := &reqModel{s: s, places: map[string][]reqLimit{}, index: map[string]int{}}
	for name, p := range s.places {
		for _, u := range p.uses {
			m.places[name] = append(m.places[name], u.limit(t))
		}
	}
	for _, c := range s.calls {
		for _, u := range s.places[c.place].uses {
			if id := u.zone + " " + u.of(c); u.of(c) != "" {
				if _, ok := m.index[id]; !ok {
					m.index[id] = len(m.index)
				}
			}
		}
	}
	return m
}

// decide returns the decision about a call at an instant, and the new state. Either all limits
// admit or none counts, and the largest delay applies.
func (m *reqModel) decide(state string, c reqCall, ms int64) (reqSeen, string) {
	p := m.s.places[c.place]
	seen, words := reqSeen{at: ms, status: "-"}, []byte(state)
	for i, u := range p.uses {
		if u.of(c) == "" {
			continue
		}
		at := 16 * m.index[u.zone+" "+u.of(c)]
		s := []int64{int64(binary.LittleEndian.Uint64(words[at:])), int64(binary.LittleEndian.Uint64(words[at+8:]))}
		s, r := m.places[c.place][i].Do(s, algo.Ask{Op: algo.Take, Now: ms * 1000, N: 1})
		if !r.OK {
			seen.status, seen.delay = "REJECTED", 0
			break
		}
		binary.LittleEndian.PutUint64(words[at:], uint64(s[0]))
		binary.LittleEndian.PutUint64(words[at+8:], uint64(s[1]))
		seen.status, seen.delay = "PASSED", max(seen.delay, r.Delay/1000)
	}
	if seen.delay > 0 {
		seen.status = "DELAYED"
	}
	next := string(words)
	if seen.status == "REJECTED" {
		next = state
	}
	if p.dry && (seen.status == "REJECTED" || seen.status == "DELAYED") {
		seen.status += "_DRY_RUN"
	}
	return seen, next
}

// A reqNode is a partial explanation. It holds the decided calls (all below base, and those of
// mask above it), the instant of the last one and the state then.
type reqNode struct {
	base  int
	mask  uint64
	now   int64
	state string
}

// explains returns how many decisions of a scenario the model makes, in the order of their
// instants. The instant of each may be up to before ms earlier or after ms later than the log
// says.
func (m *reqModel) explains(seen []reqSeen, before, after int64) (explained int) {
	order := make([]int, 0, len(seen))
	for i := range seen {
		if seen[i].status != "-" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(seen[a].at, seen[b].at), cmp.Compare(seen[a].rank(), seen[b].rank()))
	})
	nodes := map[reqNode]bool{{state: string(make([]byte, 16*len(m.index)))}: true}
	for done := range order {
		next := map[reqNode]bool{}
		for n := range nodes {
			first := seen[order[n.base]].at
			for j := n.base; j < len(order) && j < n.base+64; j++ {
				one := seen[order[j]]
				if one.at > first+before+after {
					break
				}
				if n.mask&(1<<(j-n.base)) != 0 || m.waits(n, order, seen, j) {
					continue
				}
				for ms := max(one.at-before, n.now); ms <= one.at+after; ms++ {
					got, state := m.decide(n.state, m.s.calls[order[j]], ms)
					if got.status != one.status || got.delay != one.delay {
						continue
					}
					to := reqNode{n.base, n.mask | 1<<(j-n.base), ms, state}
					for to.mask&1 != 0 {
						to.base, to.mask = to.base+1, to.mask>>1
					}
					next[to] = true
				}
			}
		}
		if len(next) == 0 || len(next) > 100_000 {
			return done
		}
		nodes = next
	}
	return len(order)
}

// waits reports whether an equal decision before the j-th is not explained yet. The order of
// such two makes no difference.
func (m *reqModel) waits(n reqNode, order []int, seen []reqSeen, j int) bool {
	one, c := seen[order[j]], m.s.calls[order[j]]
	for i := j - 1; i >= n.base && seen[order[i]] == one; i-- {
		before := m.s.calls[order[i]]
		if n.mask&(1<<(i-n.base)) == 0 && before.place == c.place && before.key == c.key {
			return true
		}
	}
	return false
}

// TestLimitReqModel checks that the model detects one wrong decision and an error of one
// millisecond.
func TestLimitReqModel(t *testing.T) {
	for _, s := range reqScenarios() {
		m := newReqModel(t, &s)
		state := string(make([]byte, 16*len(m.index)))
		var seen []reqSeen
		limited := 0
		for _, c := range s.calls {
			var one reqSeen
			if one, state = m.decide(state, c, 1_700_000_000_000+int64(c.at)); one.status != "-" {
				limited++
			}
			seen = append(seen, one)
		}
		if n := m.explains(seen, 0, 0); n != limited {
			t.Errorf("%s: %d of %d decisions of its own are explained", s.name, n, limited)
		}
		if s.loose {
			continue
		}
		for i, one := range seen {
			other := one
			switch {
			case one.status == "-":
				continue
			case one.delay > 0:
				other.delay += 8
			case one.status == "PASSED":
				other.status = "REJECTED"
			default:
				other.status = "PASSED"
			}
			seen[i] = other
			if n := m.explains(seen, nginxSlack, nginxSlack); n == limited {
				t.Errorf("%s: request %d, %v, is explained as %v", s.name, i, one, other)
			}
			seen[i] = one
		}
	}
}

// A reqResult is the outcome of a scenario, by server.
type reqResult struct {
	equal       map[string]int   // outcomes equal to those of nginx
	slack       map[string]int64 // offset of the model's instants, ms
	unexplained int
}

// nginxSlack is the possible error in ms of an instant in the log of nginx. nginx logs the
// time of one clock and decides by another, which ticks at other moments. Weir logs the
// instant of the decision.
const nginxSlack = 1

// nginxStalled is that error if a busy machine stops nginx between its reads of the two clocks.
const nginxStalled = 16

func compareReq(t *testing.T, i int, s reqScenario, seen map[string]map[string]reqSeen, got map[string][]reqResponse) (r reqResult) {
	t.Helper()
	m := newReqModel(t, &s)
	limited := 0
	for _, c := range s.calls {
		if !s.unlimited(c) {
			limited++
		}
	}
	of := map[string][]reqSeen{}
	r.equal, r.slack = map[string]int{}, map[string]int64{}
	for j, c := range s.calls {
		path := fmt.Sprintf("/%d/%s/%d", i, c.place, j)
		for _, server := range reqServers {
			one, answer := seen[server][path], got[server+s.name][j]
			of[server] = append(of[server], one)
			if one.status == seen["nginx"][path].status {
				r.equal[server]++
			}
			if want := s.places[c.place].answer(one.status); answer.status != want {
				t.Errorf("%s, request %d: %s answers %d to what is %s, want %d", s.name, j, server, answer.status, one.status, want)
			}
			held := time.Duration(one.delay) * time.Millisecond
			if server == "nginx" {
				held -= 2 * time.Millisecond // the clock of its timers is up to that old
			}
			if one.status == "DELAYED" && answer.took < held {
				t.Errorf("%s, request %d: %s delays it by %d ms and answers after %v", s.name, j, server, one.delay, answer.took)
			}
		}
	}
	for _, server := range reqServers {
		most, explained := int64(0), 0
		if server == "nginx" {
			most = nginxStalled
		}
		for slack := int64(0); slack <= most && explained < limited; slack = max(nginxSlack, 2*slack) {
			r.slack[server], explained = slack, m.explains(of[server], slack, slack)
		}
		if explained < limited {
			r.unexplained += limited - explained
			t.Errorf("%s: the model makes %[4]d of the %[2]d decisions of %[3]s: %[5]v", s.name, limited, server, explained, of[server])
		} else if server == "nginx" && r.slack[server] == 0 {
			s.record(t, of[server])
		}
	}
	return r
}

// answer returns the status of the response to a decision.
func (p reqPlace) answer(status string) int {
	switch {
	case status != "REJECTED":
		return 200
	case p.status != 0:
		return p.status
	}
	return 503
}

// record writes the decisions of nginx for one zone, one key and one location to a file, if
// the flag asks for it.
func (s *reqScenario) record(t *testing.T, seen []reqSeen) {
	p := s.places["a"]
	if *recordTraces == "" || len(s.places) > 1 || len(p.uses) > 1 || p.uses[0].key != "$binary_remote_addr" {
		return
	}
	sorted := slices.Clone(seen)
	slices.SortStableFunc(sorted, func(a, b reqSeen) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank(), b.rank())) })
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: what nginx 1.22.1 did. Instants and delays are in ms.\nlimit_req rate=%s %s\n", s.name, p.uses[0].rate, p.uses[0].words)
	for _, one := range sorted {
		fmt.Fprintf(&b, "%d %s %d\n", one.at-sorted[0].at, strings.TrimSuffix(one.status, "_DRY_RUN"), one.delay)
	}
	if err := os.WriteFile(filepath.Join(*recordTraces, p.uses[0].zone+".txt"), []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}
