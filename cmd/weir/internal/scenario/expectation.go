package scenario

import (
	"maps"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/strict"
)

const wantExpect = "want allow, deny, a map such as {decision: deny, retry_after: 12s}, or a list of these for consecutive requests"

// expectations reads what is expected of the requests of a step. The elements of a list
// apply to consecutive requests, again and again.
func (r *reader) expectations(n strict.Node, field string, times int) []expectation {
	if !n.There() {
		return nil
	}
	if n.Kind() != strict.List {
		return []expectation{r.expectation(n, field)}
	}
	var all []expectation
	for i, e := range r.list(n, field, wantExpect) {
		all = append(all, r.expectation(e, strict.Index(field, i)))
	}
	if len(all) > 0 && times%len(all) != 0 {
		r.Fail(n, field, "", "want times to be a multiple of the %d elements, got %d", len(all), times)
	}
	return all
}

func (r *reader) expectation(n strict.Node, field string) (e expectation) {
	if n.Kind() != strict.Map {
		if e.decision = n.Text(); e.decision != "allow" && e.decision != "deny" {
			r.Fail(n, field, n.String(), "%s", wantExpect)
		}
		return e
	}
	m, ok := r.Map(n, field, expectFields)
	if ok {
		r.require(n, m, field, "decision", "want allow or deny")
	}
	at := func(name string) (strict.Node, string) { return m.Values[name], strict.Join(field, name) }
	e.decision = r.word(m.Values["decision"], field+".decision", "allow", "deny")
	if v, at := at("policy"); v.There() {
		e.policy = r.text(v, at, "want the name of the policy that denies")
	}
	if v, at := at("status"); v.There() {
		e.status = int(r.integer(v, at, 200, 599))
	}
	if v, at := at("retry_after"); v.There() {
		d := weir.Never
		if v.Text() != "never" {
			d = r.duration(v, at, 0)
		}
		e.retryAfter = &d
	}
	for _, name := range []string{"policy", "retry_after"} {
		if v, at := at(name); v.There() && e.decision == "allow" {
			r.Fail(v, at, v.String(), "want decision: deny beside %s", name)
		}
	}
	if v, at := at("remaining"); v.There() {
		r.remaining(v, at, &e)
	}
	if v, at := at("delay"); v.There() {
		d := r.duration(v, at, 0)
		e.delay = &d
	}
	e.matched = r.names(at("matched"))
	e.shadowDenied = r.names(at("shadow_denied"))
	if v, at := at("degraded"); v.There() {
		word := r.word(v, at, "open", "closed", "local", "none")
		if word == "none" {
			word = ""
		}
		e.degraded = &word
	}
	if v, at := at("borrowed"); v.There() {
		e.borrowed = r.word(v, at, "true", "false")
	}
	e.headers = r.texts(at("headers"))
	return e
}

// remaining reads the remaining tokens: of the limit that decides, or by policy.
func (r *reader) remaining(n strict.Node, field string, e *expectation) {
	if n.Kind() != strict.Map {
		i := r.integer(n, field, 0, 1<<40)
		e.remaining = &i
		return
	}
	m, _ := r.Map(n, field, nil)
	e.remainingOf = map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(m.Values)) {
		e.remainingOf[name] = r.integer(m.Values[name], strict.Join(field, name), 0, 1<<40)
	}
}
