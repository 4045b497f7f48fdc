package consoletest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func routes(f *Fake) {
	f.mux.HandleFunc("GET /v1/session", f.session)
	f.mux.HandleFunc("POST /v1/session", f.signIn)
	f.mux.HandleFunc("DELETE /v1/session", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Path: "/", MaxAge: -1})
		reply(w, entry{})
	})
	f.mux.HandleFunc("GET /v1/overview", func(w http.ResponseWriter, _ *http.Request) { reply(w, f.overview()) })
	f.mux.HandleFunc("GET /v1/series", f.series)
	f.mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) { serveEvents(f, w, r) })
	f.mux.HandleFunc("GET /v1/policies", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, entry{"from": "weir.yaml", "policies": f.overview()["policies"]})
	})
	f.mux.HandleFunc("GET /v1/policies/{name}/keys", func(w http.ResponseWriter, r *http.Request) { reply(w, f.top(r.PathValue("name"))) })
	f.mux.HandleFunc("GET /v1/policies/{name}/threshold", f.threshold)
	f.mux.HandleFunc("POST /v1/key", f.key)
	for _, action := range []string{"credit", "reset", "raise", "freeze", "block", "lift"} {
		f.mux.HandleFunc("POST /v1/key/"+action, func(w http.ResponseWriter, r *http.Request) { f.adjust(w, r, action) })
	}
	f.mux.HandleFunc("GET /v1/adjustments", func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		list := []entry{}
		for _, a := range f.adjustments {
			list = append(list, a)
		}
		reply(w, entry{"adjustments": list})
	})
	f.mux.HandleFunc("GET /v1/audit", f.auditLog)
	f.mux.HandleFunc("POST /v1/explain", f.explain)
	f.mux.HandleFunc("GET /v1/functions", f.functions)
	f.mux.HandleFunc("GET /v1/upstreams", func(w http.ResponseWriter, _ *http.Request) {
		all := []entry{}
		if !f.Empty {
			all = append(all, entry{"upstream": "http://10.0.0.7:3000", "route": "/", "protections": []entry{
				{"name": "breaker", "state": "open", "open_ms": 1000 * (30 - time.Now().Unix()%30)}, {"name": "bulkhead", "state": "12 of 20, 3 waiting", "open_ms": 0}}})
		}
		reply(w, entry{"upstreams": all})
	})
	editRoutes(f)
}

func (f *Fake) session(w http.ResponseWriter, r *http.Request) {
	_, err := r.Cookie("session")
	if f.Token != "" && err != nil {
		reply(w, entry{"name": "", "role": "", "required": true})
		return
	}
	reply(w, entry{"name": "ops", "role": f.Role, "required": f.Token != ""})
}

func (f *Fake) signIn(w http.ResponseWriter, r *http.Request) {
	var q struct{ Token string }
	if json.NewDecoder(r.Body).Decode(&q) != nil || q.Token != f.Token {
		refuse(w, 401, entry{"detail": "wrong token"})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	reply(w, entry{"name": "ops", "role": f.Role, "required": true})
}

func (f *Fake) overview() entry {
	now := time.Now().Unix()
	all := f.total(now)
	lat := latency(now)
	policies := []entry{}
	for _, p := range f.policies() {
		v := f.values(p, now)
		trend := []float64{}
		for t := now - 59; t <= now; t++ {
			trend = append(trend, f.values(p, t)[1])
		}
		rate := v[0] + v[1]
		policies = append(policies, entry{"name": p.name, "mode": p.mode, "percent": p.percent, "key": p.key, "limits": p.limits, "candidate": p.candidate,
			"rate": rate, "denied": v[1], "denied_share": v[1] / math.Max(1, rate), "shadow": v[3], "trend": trend})
	}
	f.mu.Lock()
	version := f.version
	f.mu.Unlock()
	nodes, programs := f.nodes(version)
	return entry{"at": stamp(0), "version": version,
		"totals":     entry{"admitted": all[0], "denied": all[1], "delayed": all[2], "shadow": all[3], "overloaded": all[4]},
		"latency_ms": entry{"p50": lat[0], "p99": lat[1]}, "policies": policies, "nodes": nodes, "programs": programs}
}

func (f *Fake) nodes(version int) (nodes, programs []entry) {
	store, mode := entry{"state": "up", "ms": 0.4}, "normal"
	if f.StoreDown {
		store, mode = entry{"state": "down", "ms": 0}, "local"
	}
	nodes = []entry{
		{"id": "a1", "name": "gw-1", "self": true, "version": version, "store": store, "mode": mode, "seen_ms": 300, "stale": false, "problem": ""},
		{"id": "a2", "name": "gw-2", "self": false, "version": version - 1, "store": entry{"state": "slow", "ms": 41.5}, "mode": "local", "seen_ms": 900, "stale": false,
			"problem": "decides locally: the store answers slower than 25 ms"},
		{"id": "a3", "name": "gw-3", "self": false, "version": version, "store": entry{"state": "up", "ms": 0.6}, "mode": "normal", "seen_ms": 700, "stale": false, "problem": ""},
	}
	if f.StaleNode {
		nodes = append(nodes, entry{"id": "a4", "name": "gw-4", "self": false, "version": version, "store": entry{"state": "up", "ms": 0.5}, "mode": "normal",
			"seen_ms": 12000, "stale": true, "problem": "no report for 12 s"})
	}
	programs = []entry{}
	if f.Empty {
		return nodes[:1], programs
	}
	for i, host := range []string{"shop-a", "shop-b", "shop-c"} {
		v, problem := version, ""
		if i == 2 {
			v, problem = version-1, "policies not updated for 14 s"
		}
		programs = append(programs, entry{"id": host, "service": "shop", "host": host, "pid": 4100 + i, "version": v, "functions": 2, "adjusts": i > 0, "seen_ms": 400 + 100*i, "stale": false, "problem": problem})
	}
	return nodes, programs
}

func (f *Fake) series(w http.ResponseWriter, r *http.Request) {
	now := time.Now().Unix()
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	from := max(since+1, now-599)
	rows := [][]float64{}
	for t := from; t <= now; t++ {
		v := f.total(t)
		if name := r.URL.Query().Get("policy"); name != "" {
			p, ok := f.find(name)
			if !ok {
				refuse(w, 404, entry{"detail": "no such policy", "field": "policy", "value": name, "expected": "the name of a policy"})
				return
			}
			v = f.values(p, t)
		}
		lat := latency(t)
		row := append(v[:], lat[:]...)
		if age := now - t; age > 200 && age < 215 { // a gap
			row = nil
		}
		rows = append(rows, row)
	}
	reply(w, entry{"step": 1, "from": from, "columns": []string{"admitted", "denied", "delayed", "shadow", "overloaded", "candidate", "p50", "p99"}, "rows": rows})
}

func (f *Fake) find(name string) (example, bool) {
	for _, p := range f.policies() {
		if p.name == name {
			return p, true
		}
	}
	return example{}, false
}

func serveEvents(f *Fake, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(kind string, v any) {
		b, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		_ = control.Flush()
	}
	f.mu.Lock()
	changed, audited, version := f.changed, len(f.audit), f.version
	f.mu.Unlock()
	policy := ""
	for topic := range strings.SplitSeq(r.URL.Query().Get("topics"), ",") {
		if name, ok := strings.CutPrefix(topic, "policy:"); ok {
			policy = name
		}
	}
	if policy != "" {
		send("top", f.top(policy))
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := 1; ; n++ {
		select {
		case <-r.Context().Done():
			return
		case <-changed:
			f.mu.Lock()
			changed = f.changed
			if f.offline {
				f.mu.Unlock()
				return
			}
			for _, e := range f.audit[audited:] {
				send("audit", entry{"entry": e})
			}
			audited = len(f.audit)
			if f.version != version {
				version = f.version
				send("version", f.versions[len(f.versions)-1])
			}
			f.mu.Unlock()
		case <-second.C:
			t := time.Now().Unix()
			policies := map[string][6]float64{}
			for _, p := range f.policies() {
				policies[p.name] = f.values(p, t)
			}
			send("tick", entry{"t": t, "all": f.total(t), "policies": policies, "latency": latency(t)})
			if n%5 == 0 {
				nodes, programs := f.nodes(version)
				send("nodes", entry{"nodes": nodes, "programs": programs})
				if policy != "" {
					send("top", f.top(policy))
				}
			}
		}
	}
}

// keys returns the top keys of the fake, each a list of parts.
func (f *Fake) keys(p example) (all [][]string) {
	for i := range 12 {
		k := []string{fmt.Sprintf("203.0.113.%d", 9+7*i)}
		for range p.key[1:] {
			k = append(k, fmt.Sprintf("198.51.100.%d", 20+i))
		}
		all = append(all, k)
	}
	if f.Hostile {
		all[0][0] = markup
		all[1][0] = strings.Repeat("long", 60)
		all[2][0] = "\u202egnp.exe <b>bold</b> {{x}} ${y}"
	}
	return all
}

func (f *Fake) named(policy string, key []string) entry {
	e := entry{"id": fmt.Sprintf("%08x", uint32(noise(policy+strings.Join(key, "\x00"), 0)*10000)*429496)}
	if f.Role == "operate" {
		e["key"] = key
	}
	return e
}

func (f *Fake) top(name string) entry {
	p, _ := f.find(name)
	requests, denied := []entry{}, []entry{}
	if p.rate > 0 && !f.Quiet {
		for i, key := range f.keys(p) {
			r, d := f.named(name, key), f.named(name, key)
			n := int(p.rate * 600 * 0.08 / float64(i+1))
			r["count"], r["error"] = n, i*i
			requests = append(requests, r)
			if p.denied > 0 {
				d["count"], d["error"] = int(float64(n)*0.8), i*i/2
				denied = append(denied, d)
			}
		}
	}
	return entry{"policy": name, "window_s": 600, "coverage": 1, "bound": 340, "requests": requests, "denied": denied}
}

func (f *Fake) threshold(w http.ResponseWriter, r *http.Request) {
	limit := r.URL.Query().Get("limit")
	head, _, _ := strings.Cut(limit, "/")
	n, err := strconv.ParseFloat(head, 64)
	if err != nil || n <= 0 {
		refuse(w, 400, entry{"detail": "limit: got " + limit + ", want COUNT/PERIOD", "field": "limit", "value": limit, "expected": "COUNT/PERIOD"})
		return
	}
	if f.Quiet {
		reply(w, entry{"limit": limit, "enough": false, "reason": "31 keys in 10 min, want 50", "histogram": []entry{}})
		return
	}
	keys := math.Round(500 / n)
	histogram := []entry{}
	for i := range 10 {
		histogram = append(histogram, entry{"from": 1 << i, "to": 2 << i, "keys": math.Round(3000 / math.Pow(1.9, float64(i)))})
	}
	reply(w, entry{"limit": limit, "enough": true, "reason": "", "now": entry{"keys": []float64{61, 61}, "requests": []float64{12960, 12960}},
		"keys": []float64{keys, math.Round(keys * 1.1)}, "keys_total": []float64{4300, 4700}, "requests": []float64{keys * 31, keys * 36}, "requests_total": 72000,
		"exact_above": 340, "window_s": 600, "coverage": 1, "histogram": histogram})
}
