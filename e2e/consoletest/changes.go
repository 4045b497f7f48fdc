package consoletest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

type keyRequest struct {
	Policy, ID, Reason, Until, For string
	Key, Limits                    []string
	Tokens                         int
}

// ask reads a keyRequest and resolves an id.
func (f *Fake) ask(w http.ResponseWriter, r *http.Request) (q keyRequest, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		refuse(w, 400, entry{"detail": err.Error()})
		return q, false
	}
	if q.ID == "" {
		return q, true
	}
	for _, p := range f.policies() {
		for _, key := range f.keys(p) {
			if f.named(p.name, key)["id"] == q.ID {
				q.Key = key
				return q, true
			}
		}
	}
	refuse(w, 404, entry{"detail": "no recent key has this id", "field": "id", "value": q.ID, "expected": "the id of a top or sampled key, or the key itself"})
	return q, false
}

// remaining returns how many of n tokens a key has: those that end in 9 none.
func (f *Fake) remaining(policy string, key []string, n int) int {
	if a := f.adjustments[policy+"\x00"+strings.Join(key, "\x00")]; a != nil && a["kind"] == "full" {
		return n
	}
	if strings.HasSuffix(key[0], "9") {
		return 0
	}
	return int(float64(n) * (0.5 + 0.5*noise(key[0], time.Now().Unix())))
}

func (f *Fake) key(w http.ResponseWriter, r *http.Request) {
	q, ok := f.ask(w, r)
	if !ok {
		return
	}
	if len(q.Key) == 0 || q.Key[0] == "" {
		refuse(w, 400, entry{"detail": "key: got nothing, want the parts of a key", "field": "key", "value": "", "expected": "the parts of a key"})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []entry{}
	for _, p := range f.policies() {
		if len(p.key) == len(q.Key) && (q.Policy == "" || q.Policy == p.name) {
			list = append(list, f.keyState(p, q.Key))
		}
	}
	reply(w, entry{"policies": list})
}

// keyState requires mu.
func (f *Fake) keyState(p example, key []string) entry {
	now := time.Now()
	e := f.named(p.name, key)
	e["policy"], e["mode"], e["denied"], e["until"], e["retry_after_ms"], e["adjustment"] = p.name, p.mode, false, nil, 0, nil
	limits := p.limits
	a := f.adjustments[p.name+"\x00"+strings.Join(key, "\x00")]
	if a != nil && a["kind"] != "full" {
		e["adjustment"] = a
		if l, ok := a["limits"].([]string); ok && a["kind"] == "raise" {
			limits = l
		}
	}
	states := []entry{}
	for _, limit := range limits {
		head, _, _ := strings.Cut(limit, "/")
		n, _ := strconv.Atoi(head)
		if _, burst, ok := strings.Cut(limit, "burst "); ok {
			n, _ = strconv.Atoi(burst)
		}
		left := f.remaining(p.name, key, n)
		if a != nil && a["kind"] == "raise" {
			left = n - 1
		}
		s := entry{"limit": limit, "capacity": n, "remaining": left, "retry_after_ms": 0, "reset_after_ms": 41250 - now.UnixMilli()%20000, "ok": left > 0}
		if left == 0 {
			wait := 41250 - now.UnixMilli()%20000
			s["retry_after_ms"] = wait
			e["denied"], e["retry_after_ms"], e["until"] = true, wait, stamp(time.Duration(wait)*time.Millisecond)
		}
		states = append(states, s)
	}
	adjustment, _ := e["adjustment"].(entry)
	switch adjustment["kind"] {
	case "freeze":
		e["denied"], e["until"], e["retry_after_ms"] = true, nil, nil
	case "block":
		e["denied"], e["until"], e["retry_after_ms"] = true, a["until"], nil
	}
	history := []entry{}
	for t := now.Unix()/10*10 - 590; t <= now.Unix(); t += 10 {
		n := int(6 * noise(key[0], t))
		history = append(history, entry{"t": t, "requests": n, "denied": max(0, n-2)})
	}
	e["states"], e["history"] = states, history
	return e
}

func (f *Fake) adjust(w http.ResponseWriter, r *http.Request, action string) {
	q, ok := f.ask(w, r)
	if !ok {
		return
	}
	p, found := f.find(q.Policy)
	if !found || len(q.Key) != len(p.key) {
		refuse(w, 400, entry{"detail": "no such policy", "field": "policy", "value": q.Policy, "expected": "the name of a policy"})
		return
	}
	if strings.TrimSpace(q.Reason) == "" {
		refuse(w, 400, entry{"detail": "reason: got nothing, want why", "field": "reason", "value": "", "expected": "why"})
		return
	}
	until := any(nil)
	if d, err := time.ParseDuration(q.For); err == nil {
		until = stamp(d)
	} else if q.Until != "" {
		until = q.Until
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.keyState(p, q.Key)
	id := p.name + "\x00" + strings.Join(q.Key, "\x00")
	a := entry{"id": fmt.Sprint(len(f.audit)), "policy": p.name, "key": q.Key, "kind": action, "limits": q.Limits, "until": until, "reason": q.Reason, "by": "ops", "at": stamp(0)}
	switch action {
	case "lift":
		delete(f.adjustments, id)
	case "credit", "reset":
		a["kind"] = "full"
		f.adjustments[id] = a
	default:
		f.adjustments[id] = a
	}
	e := f.record("ops", "web", action, p.name, q.Key, q.Reason, "", "")
	reply(w, entry{"before": before, "after": f.keyState(p, q.Key), "audit": e["id"]})
}

func seedAudit(f *Fake) {
	for i, e := range []entry{
		{"actor": "ops", "via": "web", "action": "sign_in", "ok": false, "error": "wrong token"},
		{"actor": "mei", "via": "cli", "action": "raise", "policy": "login", "key": []string{"203.0.113.9"}, "reason": "ticket 812", "to": "raised to 30/m, 600/h for 1h0m0s by mei: ticket 812"},
		{"actor": "ops", "via": "cli", "action": "reset", "policy": "login", "key": []string{"203.0.113.9"}, "reason": "ticket 813", "ok": nil},
		{"actor": "ops", "via": "web", "action": "apply", "reason": "peak season", "from": "41", "to": "42"},
		{"actor": "deploy", "via": "http", "action": "block", "policy": "api-per-client", "key": []string{"203.0.113.30"}, "reason": "scraper", "to": "blocked until " + stamp(2*time.Hour) + " by deploy: scraper"},
		{"actor": "mei", "via": "web", "action": "lift", "policy": "login", "key": []string{"203.0.113.9"}, "reason": "done", "from": "raised to 30/m, 600/h until " + stamp(time.Hour) + " by mei: ticket 812"},
	} {
		if e["key"] != nil {
			e["key_id"] = fmt.Sprintf("k%07d", i)
		}
		e["id"], e["at"] = i+1, stamp(-time.Duration(48-8*i)*time.Minute)
		if _, ok := e["ok"]; !ok {
			e["ok"] = true
		}
		if f.Hostile {
			e["reason"] = markup
		}
		if f.Role == "read" {
			delete(e, "key")
		}
		f.audit = append(f.audit, e)
	}
}

func (f *Fake) auditLog(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	list := []entry{}
	for _, e := range f.audit {
		if (q.Get("policy") == "" || e["policy"] == q.Get("policy")) && (q.Get("actor") == "" || e["actor"] == q.Get("actor")) && (q.Get("action") == "" || e["action"] == q.Get("action")) {
			if before, err := strconv.Atoi(q.Get("before")); err != nil || e["id"].(int) < before {
				list = append(list, e)
			}
		}
	}
	slices.Reverse(list)
	if strings.Contains(r.Header.Get("Accept"), "ndjson") {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, e := range list {
			_ = json.NewEncoder(w).Encode(e)
		}
		return
	}
	reply(w, entry{"entries": list[:min(len(list), 100)]})
}

func (f *Fake) explain(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Method, URL, Draft string
		ClientIP           string `json:"client_ip"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		refuse(w, 400, entry{"detail": err.Error()})
		return
	}
	if !strings.HasPrefix(q.URL, "/") && !strings.HasPrefix(q.URL, "http") {
		refuse(w, 400, entry{"detail": "url: got " + q.URL + ", want a path or a URL", "field": "url", "value": q.URL, "expected": "a path or a URL"})
		return
	}
	decide := func(denied bool, limit string) entry {
		a := entry{"request": entry{"method": q.Method, "host": "localhost", "path": q.URL, "client_ip": q.ClientIP}, "verdict": "admitted", "at": stamp(0)}
		left := 3
		if denied {
			left = 0
			a["verdict"] = "denied"
			a["denial"] = entry{"policy": "login", "limit": limit, "status": 429, "retry_after": 41.25}
		}
		a["policies"] = []entry{
			{"policy": "login", "matched": true, "mode": "enforce", "enforced": true, "key": fmt.Sprintf("login|%d:%s", len(q.ClientIP), q.ClientIP), "cost": 1,
				"limits": []entry{{"limit": limit, "ok": !denied, "capacity": 5, "remaining": left, "reset_after": 41.2, "decides": true}}},
			{"policy": "uploads", "matched": false, "why": "method: got GET, want POST", "mode": "enforce", "enforced": false},
		}
		return a
	}
	a := decide(strings.HasSuffix(q.ClientIP, "9"), "5/m")
	if q.Draft != "" {
		a["draft"] = decide(false, "12/m")
	}
	reply(w, a)
}

func (f *Fake) functions(w http.ResponseWriter, _ *http.Request) {
	if f.Empty {
		reply(w, entry{"functions": []entry{}, "processes": []entry{}})
		return
	}
	now := time.Now().Unix()
	f.mu.Lock()
	defer f.mu.Unlock()
	name := "payments.Charge"
	if f.Hostile {
		name = markup
	}
	shop := []entry{{"service": "shop", "processes": 3, "outdated": 1, "stale": 0}}
	reply(w, entry{"functions": []entry{
		{"name": name, "programs": shop, "limits": []string{"50/s"}, "source": "code", "version": 0, "calls": 38 + 6*noise("f", now), "denied_share": 0, "failed_share": 0.22, "breaker": "open", "breaker_open_ms": 1000 * (12 - now%12)},
		{"name": "shop.getId", "programs": shop, "limits": []string{"10/10s"}, "source": "rule", "version": f.version, "calls": 800 + 40*noise("g", now), "denied_share": 0.031, "failed_share": 0.002, "breaker": "closed"},
	}, "processes": []entry{}})
}
