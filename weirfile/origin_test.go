package weirfile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// policyText returns a policy file with a limit.
func policyText(limit string) string {
	return "policies: [{ name: a, key: client.ip, limits: " + limit + " }]\n"
}

// A diary records what a Follower reports.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// read returns and clears the record.
func (d *diary) read() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.lines = nil }()
	return strings.Join(d.lines, "; ")
}

// follower returns a Follower that records each limit that it adopts, except 13/s.
func (d *diary) follower() *weirfile.Follower {
	return &weirfile.Follower{
		Adopt: func(f *weirfile.File) error {
			limit := f.Policies.Policy("a").Config().Limits[0].String()
			if strings.HasPrefix(limit, "13/s") {
				return errors.New("not thirteen")
			}
			limit, _, _ = strings.Cut(limit, " ")
			d.add("v%d %s", f.Version, limit)
			return nil
		},
		Trouble: func(err error) { d.add("trouble: %v", err) },
	}
}

// A step changes what a Follower reads, and has the beginning of what it then reports.
type step struct {
	what string
	do   func()
	want string
}

// follow runs f in virtual time. Each step takes six seconds.
func follow(t *testing.T, f *weirfile.Follower, d *diary, steps []step) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	for i, s := range steps {
		s.do()
		if i == 0 {
			go func() { done <- f.Run(ctx) }()
		}
		<-time.After(6 * time.Second) // longer than any back-off
		synctest.Wait()
		if got := d.read(); got != s.want && (s.want == "" || !strings.HasPrefix(got, s.want)) {
			t.Errorf("%s: got %q, want %q", s.what, got, s.want)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want the cause of its context", err)
	}
}

// A website is a transport that serves one text, and holds requests back as weir serve does.
type website struct {
	mu       sync.Mutex
	changed  chan struct{}
	text     string
	status   int
	version  int
	etag     bool
	location string
	err      error
	requests []*http.Request
}

func newWebsite() *website { return &website{changed: make(chan struct{}), status: 200, etag: true} }

// set changes the site.
func (s *website) set(f func(*website)) func() {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f(s)
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

func (s *website) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	changed, tag := s.changed, `"`+strconv.Itoa(s.version)+`"`
	wait, hold := strings.CutPrefix(r.Header.Get("Prefer"), "wait=")
	hold = hold && r.Header.Get("If-None-Match") == tag && s.status == 200 && s.err == nil
	s.mu.Unlock()
	if hold {
		seconds, _ := strconv.Atoi(wait)
		select {
		case <-changed:
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	h := http.Header{}
	if s.location != "" {
		h.Set("Location", s.location)
	}
	tag = `"` + strconv.Itoa(s.version) + `"`
	if s.etag {
		h.Set("ETag", tag)
	}
	if s.version > 0 {
		h.Set(weirfile.VersionField, strconv.Itoa(s.version))
	}
	status, body := s.status, s.text
	if s.etag && status == 200 && r.Header.Get("If-None-Match") == tag {
		status, body = http.StatusNotModified, ""
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// count returns the number of requests since the last call, the last of them, and how many
// have a field.
func (s *website) count(field string) (n int, last *http.Request, with int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if last = r; r.Header.Get(field) != "" {
			with++
		}
	}
	n = len(s.requests)
	s.requests = nil
	return n, last, with
}

// TestFollowURL checks each kind of response, and that a site that cannot be used changes
// nothing.
func TestFollowURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		s, f := newWebsite(), d.follower()
		f.URL, f.Token, f.Client = "https://user:secret@weir.example/v1/published", "token-of-the-shop", &http.Client{Transport: s}
		text := func(version int, text string) func() {
			return s.set(func(s *website) { s.version, s.text, s.status, s.err, s.location = version, text, 200, nil, "" })
		}
		const get = "trouble: weirfile: GET https://user:xxxxx@weir.example/v1/published: "
		follow(t, f, &d, []step{
			{"nothing there", s.set(func(s *website) { s.status, s.text = 404, "no\n policies" }), get + `got 404 Not Found, want 200 or 304: "no policies"`},
			{"still nothing", func() {}, ""},
			{"a text", text(7, policyText("1/s")), "v7 1/s; trouble: <nil>"},
			{"no change", func() {}, ""},
			{"a change", text(8, policyText("2/s")), "v8 2/s"},
			{"invalid", text(9, policyText("2/x")), `trouble: https://user:xxxxx@weir.example/v1/published:1:47: policies[0].limits[0]: "2/x"`},
			{"refused", text(10, policyText("13/s")), "v8 2/s; trouble: not thirteen"},
			{"unavailable", s.set(func(s *website) { s.err = errors.New("connection refused") }), get + "connection refused\nnot thirteen"},
			{"a rollback", text(11, policyText("2/s")), "v11 2/s; trouble: <nil>"},
			{"a redirect", s.set(func(s *website) { s.status, s.location = 302, "https://other.example/" }), get + `got 302 Found, want 200 or 304: "want the final URL, got a redirect to https://other.example/"`},
			{"too large", text(12, strings.Repeat("#", weirfile.MaxSize+1)), "trouble: https://user:xxxxx@weir.example/v1/published:"},
			{"without ETag and version", s.set(func(s *website) { s.etag, s.version, s.text = false, 0, policyText("3/s") }), "v0 3/s; trouble: <nil>"},
			{"without ETag, no change", func() {}, ""},
		})
		if n, last, with := s.count("Prefer"); with == 0 || with == n || last.Header.Get("If-None-Match") != "" || last.Header.Get("Authorization") != "Bearer token-of-the-shop" {
			t.Errorf("%d of %d requests may be held back, the last has %v", with, n, last.Header)
		}
	})
}

// TestURLRate checks the intervals between requests: a server that holds them back gets six a
// minute, another one a request each interval, and one that fails gets fewer and fewer.
func TestURLRate(t *testing.T) {
	for _, c := range []struct {
		name       string
		site       func(*website)
		least, max int
	}{
		{"held back", func(*website) {}, 6, 7},
		{"no ETag", func(s *website) { s.etag = false }, 120, 151},
		{"no text yet", func(s *website) { s.status = 404 }, 120, 151},
		{"fails", func(s *website) { s.status = 500 }, 12, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				s, f := newWebsite(), d.follower()
				s.text = policyText("1/s")
				f.URL, f.Client = "http://weir.example/", &http.Client{Transport: s}
				if err := f.Load(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.set(c.site)()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s.count("")
				if err := f.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Run = %v", err)
				}
				if n, _, _ := s.count(""); n < c.least || n > c.max {
					t.Errorf("%d requests in a minute, want %d to %d", n, c.least, c.max)
				}
			})
		})
	}
}

// A redis is a Conn with published versions.
type redis struct {
	mu     sync.Mutex
	fields map[string]string
	err    error
}

func (r *redis) Cluster() bool { return false }

func (r *redis) Do(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, c := range cmds {
		text := r.fields[c.Args[0]]
		for _, field := range c.Args[1:] {
			if text != "" {
				text += " " + r.fields[field]
			}
		}
		replies[i] = redisstore.Reply{Items: []string{text}, Err: r.err}
	}
}

// publish makes text the current version.
func (r *redis) publish(number int, text string) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		n := strconv.Itoa(number)
		r.fields["version"], r.fields["id"], r.fields["v:"+n], r.err = n, text, `{"text":`+strconv.Quote(text)+`}`, nil
	}
}

// fail makes each command fail; nil ends that.
func (r *redis) fail(err error) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
	}
}

func TestFollowRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r, f := &redis{fields: map[string]string{}}, d.follower()
		f.Redis = r
		follow(t, f, &d, []step{
			{"no version", func() {}, "trouble: published: version not found"},
			{"a version", r.publish(1, policyText("1/s")), "v1 1/s; trouble: <nil>"},
			{"a change", r.publish(2, policyText("2/s")), "v2 2/s"},
			{"refused", r.publish(3, policyText("13/s")), "v2 2/s; trouble: not thirteen"},
			{"gone", r.fail(errors.New("connection refused")), "trouble: published: connection refused\nnot thirteen"},
			{"there again", r.fail(nil), "trouble: not thirteen"},
			{"good again", r.publish(4, policyText("4/s")), "v4 4/s; trouble: <nil>"},
			{"another Redis", r.publish(1, policyText("5/s")), "v1 5/s"},
		})
		if v, err := f.Status(); v != 1 || err != nil {
			t.Errorf("Status = %d, %v, want version 1", v, err)
		}
		r.publish(2, policyText("13/s"))()
		late := d.follower()
		late.Redis = r
		if err := late.Load(t.Context()); err != nil || d.read() != "v1 5/s" {
			t.Errorf("Load = %v, want the version before the refused one", err)
		}
		follow(t, late, &d, []step{{"after the start", func() {}, "v1 5/s; trouble: not thirteen"}})
		if v, err := late.Status(); v != 1 || err == nil || err.Error() != "not thirteen" {
			t.Errorf("Status = %d, %v, want version 1 and the refusal", v, err)
		}
	})
}

// TestCopy checks that a program starts with the copy if its source has nothing for it, and
// follows the source as soon as it has.
func TestCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "copy.yaml")
	synctest.Test(t, func(t *testing.T) {
		var d diary
		r := &redis{fields: map[string]string{}}
		program := func() *weirfile.Follower {
			f := d.follower()
			f.Redis, f.Copy = r, path
			return f
		}
		gone := errors.New("gone")
		r.fail(gone)()
		if err := program().Load(t.Context()); !errors.Is(err, gone) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Load without Redis and copy = %v, want both errors", err)
		}
		d.read()
		r.publish(7, policyText("1/s"))()
		if err := program().Load(t.Context()); err != nil || d.read() != "v7 1/s" {
			t.Errorf("Load = %v, want version 7", err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy is %v, %v, want a file for its user alone", info, err)
		}
		for _, c := range []struct {
			name    string
			do      func()
			trouble string
		}{
			{"no Redis", r.fail(gone), "published: gone"},
			{"no version", func() { r.fail(nil)(); clear(r.fields) }, "published: version not found"},
			{"refused", r.publish(1, policyText("13/s")), "not thirteen"},
		} {
			c.do()
			f := program()
			if err := f.Load(t.Context()); err != nil || d.read() != "trouble: "+c.trouble+"; v7 1/s" {
				t.Errorf("%s: Load = %v, want the copy", c.name, err)
			}
			if v, err := f.Status(); v != 7 || err == nil || err.Error() != c.trouble {
				t.Errorf("%s: Status = %d, %v, want version 7 and %q", c.name, v, err, c.trouble)
			}
			if c.name == "no Redis" {
				follow(t, f, &d, []step{
					{"still gone", func() {}, ""},
					{"a change", r.publish(8, policyText("2/s")), "trouble: <nil>; v8 2/s"},
				})
				if text, _ := os.ReadFile(path); !strings.HasSuffix(string(text), policyText("2/s")) {
					t.Errorf("the copy is %q, want version 8", text)
				}
				r.publish(7, policyText("1/s"))()
				follow(t, program(), &d, []step{{"back", func() {}, "v7 1/s"}})
			}
		}
		if err := os.WriteFile(path, []byte("nonsense: true\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := program().Load(t.Context()); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("Load of a broken copy = %v, want its fault", err)
		}
		d.read()
		r.publish(2, policyText("2/s"))()
		f := program()
		f.Copy = filepath.Join(dir, "missing", "copy.yaml")
		follow(t, f, &d, []step{{"no directory", func() {}, "v2 2/s; trouble: weirfile: copy not saved: open "}})
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
			t.Errorf("files %v, want the copy alone", files)
		}
	})
}

func TestFollowerFields(t *testing.T) {
	adopt := func(*weirfile.File) error { return nil }
	for _, f := range []*weirfile.Follower{
		{},
		{Path: "a"},
		{Adopt: adopt},
		{Path: "a", URL: "http://b", Adopt: adopt},
		{Redis: &redis{}, URL: "http://b", Adopt: adopt},
		{URL: "ftp://b", Adopt: adopt},
		{URL: "http:///b", Adopt: adopt},
		{URL: "http://b\x00", Adopt: adopt},
		{URL: "http://b", Token: "two words", Adopt: adopt},
	} {
		if err := f.Load(t.Context()); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Load with %q = %v, want ErrInvalid", f.URL, err)
		}
		if err := f.Run(t.Context()); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Run with %q = %v, want ErrInvalid", f.URL, err)
		}
	}
	_ = published.DefaultEvery // documented as the default
}
