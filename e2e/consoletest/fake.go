// Package consoletest is an API for the console that needs no store and no traffic. It has
// moving example data, and the states that are hard to produce otherwise, such as a
// conflict or hostile texts.
package consoletest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options selects the state of a Fake.
type Options struct {
	Empty     bool   // no policies, programs, functions or audit entries
	StaleNode bool   // a node has not reported for 12 seconds
	StoreDown bool   // the store of this node is unavailable
	Conflict  bool   // another version is published before each apply
	Role      string // read or operate; operate if empty
	Token     string // of sign-in; not required if empty
	Policies  int    // the number of policies; 6 if 0
	Hostile   bool   // keys and names are markup, very long, or written from right to left
	Quiet     bool   // too little traffic for estimates
}

// A Fake is the API of the admin listener. It is safe for concurrent use.
type Fake struct {
	Options
	mux   *http.ServeMux
	edits sync.RWMutex // see HoldEdits

	mu          sync.Mutex
	version     int
	text        string
	versions    []entry
	audit       []entry
	adjustments map[string]entry // by policy and key
	changed     chan struct{}    // closed when something is appended
	requests    []string         // methods and paths of changes, in order
	offline     bool
}

type entry = map[string]any

// New returns a Fake. pages serves the console itself.
func New(o Options, pages http.Handler) *Fake {
	f := &Fake{Options: o, mux: http.NewServeMux(), version: 42, text: exampleText, adjustments: map[string]entry{}, changed: make(chan struct{})}
	if f.Role == "" {
		f.Role = "operate"
	}
	if f.Policies == 0 {
		f.Policies = len(examples)
	}
	for v := 38; v <= 42; v++ {
		f.versions = append(f.versions, entry{"version": v, "at": stamp(time.Duration(v-43) * 7 * time.Hour), "by": []string{"mei", "ops"}[v%2], "note": notes[v%len(notes)]})
	}
	if !o.Empty {
		seedAudit(f)
	}
	f.mux.Handle("/console/", pages)
	routes(f)
	return f
}

var notes = []string{"peak season", "login: slower retries after the attack on Friday", "", "uploads: count admitted only"}

// ServeHTTP implements [http.Handler].
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.Token != "" && strings.HasPrefix(r.URL.Path, "/v1/") && r.URL.Path != "/v1/session" {
		if _, err := r.Cookie("session"); err != nil {
			refuse(w, 401, entry{"detail": "a token is needed"})
			return
		}
	}
	f.mu.Lock()
	offline := f.offline
	f.mu.Unlock()
	if offline && strings.HasPrefix(r.URL.Path, "/v1/") {
		refuse(w, 502, entry{"detail": "offline"})
		return
	}
	change := r.Method != http.MethodGet
	looks := r.URL.Path == "/v1/key" || r.URL.Path == "/v1/explain" || strings.HasPrefix(r.URL.Path, "/v1/draft") || r.URL.Path == "/v1/session"
	if change && !looks {
		f.mu.Lock()
		f.requests = append(f.requests, r.Method+" "+r.URL.Path)
		f.mu.Unlock()
		switch {
		case f.Role == "read":
			refuse(w, 403, entry{"detail": "role read changes nothing"})
			return
		case f.StoreDown:
			refuse(w, 503, entry{"detail": "store unavailable"})
			return
		}
	}
	f.mux.ServeHTTP(w, r)
}

// Changes returns the methods and paths of the changes that were asked for.
func (f *Fake) Changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// HoldEdits delays the edits of drafts until the function that it returns is called.
func (f *Fake) HoldEdits() func() {
	f.edits.Lock()
	return f.edits.Unlock
}

// SetOffline ends the event streams and refuses requests, or ends that.
func (f *Fake) SetOffline(offline bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offline = offline
	close(f.changed)
	f.changed = make(chan struct{})
}

// Publish appends a version, as another node would.
func (f *Fake) Publish(by, note, text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.text = text
	f.versions = append(f.versions, entry{"version": f.version, "at": stamp(0), "by": by, "note": note})
	f.record(by, "web", "apply", "", nil, note, fmt.Sprint(f.version-1), fmt.Sprint(f.version))
	return f.version
}

// record requires mu.
func (f *Fake) record(actor, via, action, policy string, key []string, reason string, from, to any) entry {
	e := entry{"id": len(f.audit) + 1, "at": stamp(0), "actor": actor, "via": via, "action": action, "policy": policy, "reason": reason, "from": from, "to": to, "ok": true}
	if key != nil && f.Role == "operate" {
		e["key"] = key
	}
	f.audit = append(f.audit, e)
	close(f.changed)
	f.changed = make(chan struct{})
	return e
}

func stamp(d time.Duration) string { return time.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000Z") }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}

func refuse(w http.ResponseWriter, status int, problem entry) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	problem["status"], problem["title"] = status, http.StatusText(status)
	_ = json.NewEncoder(w).Encode(problem)
}

// example is one policy with its traffic.
type example struct {
	name, mode string
	percent    int
	key        []string
	limits     []string
	candidate  []string
	rate       float64 // per second
	denied     float64 // share
	shadow     float64
}

var examples = []example{
	{"login", "enforce", 100, []string{"client.ip"}, []string{"5/m"}, []string{"12/m"}, 120, 0.18, 0},
	{"api-per-client", "enforce", 100, []string{"client.ip"}, []string{"10/s burst 20", "5000/24h"}, nil, 8300, 0.021, 0},
	{"uploads", "enforce", 50, []string{"header:x-tenant"}, []string{"3/s burst 6"}, nil, 42, 0.004, 0},
	{"search", "shadow", 100, []string{"cookie:session"}, []string{"2/s burst 10"}, nil, 640, 0, 61},
	{"payments", "enforce", 100, []string{"header:x-tenant", "client.ip"}, []string{"50/s"}, nil, 18, 0, 0},
	{"partner-export", "off", 100, []string{"client.ip"}, []string{"100/h"}, nil, 0, 0, 0},
}

const markup = `<script>alert("x")</script>`

func (f *Fake) policies() []example {
	if f.Empty {
		return nil
	}
	all := append([]example(nil), examples[:min(len(examples), f.Policies)]...)
	for i := len(all); i < f.Policies; i++ {
		all = append(all, example{fmt.Sprintf("route-%02d", i), "enforce", 100, []string{"client.ip"}, []string{"10/s"}, nil, float64(7 * i), 0.01, 0})
	}
	if f.Hostile {
		all[1].name = `x" onload=` + markup
	}
	return all
}

// noise returns a repeatable number from 0 to 1.
func noise(name string, t int64) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, name, t)
	return float64(h.Sum64()%10000) / 10000
}

// values returns the six counts of a policy in one second.
func (f *Fake) values(p example, t int64) [6]float64 {
	wave := 1 + 0.18*math.Sin(float64(t)/61) + 0.06*math.Sin(float64(t)/13)
	n := p.rate * wave * (0.92 + 0.16*noise(p.name, t))
	if f.Quiet {
		n = 0
	}
	attack := 1.0
	if p.name == "login" && t%420 > 300 {
		attack = 1.9
	}
	denied := math.Round(n * p.denied * attack)
	v := [6]float64{math.Round(n) - denied, denied, math.Round(n * 0.0005), math.Round(p.shadow * wave * (0.8 + 0.4*noise(p.name, t+1))), 0, 0}
	if len(p.candidate) > 0 {
		v[5] = math.Round(denied * 0.6)
	}
	return v
}

func (f *Fake) total(t int64) (all [6]float64) {
	for _, p := range f.policies() {
		for i, x := range f.values(p, t) {
			all[i] += x
		}
	}
	return all
}

func latency(t int64) [2]float64 {
	return [2]float64{0.05 + 0.02*noise("p50", t), 0.7 + 0.5*noise("p99", t)}
}
