package scenario

import (
	"errors"
	"net/http"
	"path/filepath"
	"time"

	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/strict"
)

// A File is a test file.
type File struct {
	name     string
	policies *weirfile.File
	tests    []test
}

// A test is a list of steps that share a store.
type test struct {
	name         string
	line, column int
	start        time.Time
	steps        []step
}

// A step sends requests, or changes the policies or the store.
type step struct {
	field        string // such as "tests[0].steps[1]"
	line, column int

	at       time.Duration // since the start of the test
	times    int
	every    time.Duration
	request  *http.Request
	response response
	expect   []expectation

	policies *weirfile.File // to reload; nil for none
	store    string         // "up", "down" or ""
}

// A Config configures Parse.
type Config struct {
	// Load reads a policy file; required.
	Load func(path string) (*weirfile.File, error)
}

const (
	maxRequests = 1_000_000 // of a test
	maxTime     = 10 * 366 * 24 * time.Hour
)

// defaultStart is the start of tests that set none: a Thursday.
var defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// The fields of the maps of a test file.
var (
	fileFields     = []string{"policies", "tests"}
	testFields     = []string{"name", "start", "request", "steps"}
	stepFields     = []string{"at", "times", "every", "request", "response", "expect", "policies", "store"}
	requestFields  = []string{"method", "path", "host", "client", "headers", "cookies", "claims", "form", "json", "body"}
	responseFields = []string{"status", "headers", "json", "events", "body", "takes"}
	expectFields   = []string{"decision", "policy", "status", "retry_after", "remaining", "delay", "matched", "shadow_denied", "degraded", "borrowed", "headers"}
)

// Parse reads a test file, and the policy files that it names, relative to its directory.
// An error lists every fault of the file, or those of its policy files.
func Parse(name string, data []byte, c Config) (*File, error) {
	r := &reader{
		Document: strict.Parse(name, data, strict.Config{Empty: "want policies and tests, got an empty file"}),
		config:   c, files: map[string]*weirfile.File{},
	}
	f := &File{name: name}
	if root := r.Root(); root.There() {
		r.file(root, f)
	}
	if errs := r.Errors(); len(errs) > 0 {
		return nil, errs.Cut()
	}
	return f, errors.Join(r.broken...)
}

// A reader reads one test file. After a fault it continues, to find the next.
type reader struct {
	*strict.Document
	config Config
	files  map[string]*weirfile.File // by path; nil for one that is invalid
	broken []error                   // of policy files
}

func (r *reader) file(root strict.Node, f *File) {
	m, ok := r.Map(root, "", fileFields)
	if ok {
		r.require(root, m, "", "policies", "want the policy file to test, relative to this file")
		r.require(root, m, "", "tests", "want a list of tests")
	}
	f.policies = r.policies(m.Values["policies"], "policies")
	names := map[string]strict.Node{}
	for i, n := range r.list(m.Values["tests"], "tests", "want a list of tests") {
		field := strict.Index("tests", i)
		t := r.test(n, field)
		if first := names[t.name]; first.There() && t.name != "" {
			r.Fail(n, field+".name", strict.Quoted(t.name), "want every name once: the test of line %d has it already", first.Line())
		}
		names[t.name] = n
		f.tests = append(f.tests, t)
	}
}

// require reports a missing field.
func (r *reader) require(n strict.Node, m strict.Mapping, field, name, want string) {
	if !m.Names[name].There() {
		r.Fail(n, strict.Join(field, name), "", "%s", want)
	}
}

// policies reads the policy file that n names. It reports the faults of a file once.
func (r *reader) policies(n strict.Node, field string) *weirfile.File {
	path := r.text(n, field, "want a policy file, relative to this file")
	if path == "" {
		return nil
	}
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(filepath.Dir(r.Name()), path)
	}
	if f, known := r.files[full]; known {
		return f
	}
	f, err := r.config.Load(full)
	var errs strict.Errors
	switch {
	case errors.As(err, &errs):
		r.broken = append(r.broken, err)
	case err != nil:
		r.Fail(n, field, strict.Quoted(path), "want a valid policy file: %s", strict.Printable(err.Error()))
	case len(f.Policies.Policies()) == 0:
		r.Fail(n, field, strict.Quoted(path), "want a file with policies")
	}
	r.files[full] = f
	return f
}

func (r *reader) test(n strict.Node, field string) test {
	t := test{line: n.Line(), column: n.Column(), start: defaultStart}
	m, ok := r.Map(n, field, testFields)
	if !ok {
		return t
	}
	r.require(n, m, field, "name", "want a name")
	r.require(n, m, field, "steps", "want a list of steps")
	t.name = r.text(m.Values["name"], field+".name", "want a name")
	if s := m.Values["start"]; s.There() {
		var err error
		if t.start, err = time.Parse(time.RFC3339, s.Text()); err != nil || t.start.Year() < 1971 || t.start.Year() > 2200 {
			r.Fail(s, field+".start", s.String(), "want an instant such as 2026-01-31T23:59:00Z, from 1971 to 2200")
		}
	}
	base := r.request(m.Values["request"], field+".request")
	at, all := time.Duration(0), 0
	for i, e := range r.list(m.Values["steps"], field+".steps", "want a list of steps") {
		s := r.step(e, strict.Index(field+".steps", i), base, at)
		at = s.at + time.Duration(max(0, s.times-1))*s.every
		if all += s.times; all > maxRequests || at > maxTime {
			r.Fail(e, strict.Index(field+".steps", i), "", "want at most %d requests in a test, and %v of time", maxRequests, maxTime)
			break
		}
		t.steps = append(t.steps, s)
	}
	return t
}

// step reads a step. Without at it begins when the step before it ended.
func (r *reader) step(n strict.Node, field string, base *template, at time.Duration) step {
	s := step{field: field, line: n.Line(), column: n.Column(), at: at, times: 1}
	m, ok := r.Map(n, field, stepFields)
	if !ok {
		return s
	}
	s.at = r.duration(m.Values["at"], field+".at", at)
	changes := ""
	for _, name := range []string{"policies", "store"} {
		if m.Names[name].There() {
			changes = name
		}
	}
	if changes != "" {
		for _, name := range m.Order {
			if name != "at" && name != changes {
				r.Fail(m.Names[name], strict.Join(field, name), "", "want only at beside %s: requests have a step of their own", changes)
			}
		}
		s.policies = r.policies(m.Values["policies"], field+".policies")
		s.store = r.word(m.Values["store"], field+".store", "up", "down")
		return s
	}
	r.require(n, m, field, "expect", "want allow, deny, or a map with what is expected")
	if v := m.Values["times"]; v.There() {
		s.times = int(r.integer(v, field+".times", 1, maxRequests))
	}
	s.every = r.duration(m.Values["every"], field+".every", 0)
	s.response = r.response(m.Values["response"], field+".response")
	s.expect = r.expectations(m.Values["expect"], field+".expect", s.times)
	s.request = r.parse(n, field, base.with(r.request(m.Values["request"], field+".request")))
	return s
}
