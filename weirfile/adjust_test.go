package weirfile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/internal/adjusted"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

// A server has a policy and the adjustments of its keys, over HTTP and in Redis. Its clock is an
// hour ahead.
type server struct {
	mu      sync.Mutex
	changed chan struct{}
	version int
	records []adjusted.Record
	down    bool
	link    string
	asked   int // for the adjustments
}

const ahead = time.Hour

// block adjusts a key until a time from now on, or lifts all of them.
func (s *server) block(key string, d time.Duration) func() {
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.version++
		if s.records = nil; key != "" {
			r := adjusted.Record{Policy: "a", Key: [][]byte{[]byte(key)}, State: []byte("a|"), Kind: "freeze"}
			if d > 0 {
				r.Kind, r.Until = "block", time.Now().Add(ahead+d).UnixMilli()
			}
			s.records = append(s.records, r)
		}
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &http.Response{StatusCode: 200, Header: http.Header{}, Request: r}
	body := policyText("1/s")
	if tag := `"` + strconv.Itoa(s.version) + `"`; strings.HasSuffix(r.URL.Path, "/adjustments") {
		s.asked++
		if changed := s.changed; r.Header.Get("Prefer") != "" && r.Header.Get("If-None-Match") == tag {
			s.mu.Unlock()
			select {
			case <-changed:
			case <-r.Context().Done():
			}
			s.mu.Lock()
		}
		res.Header.Set("ETag", `"`+strconv.Itoa(s.version)+`"`)
		text, _ := json.Marshal(s.records)
		body = string(text)
	} else {
		res.Header.Set("Link", s.link)
	}
	if s.down {
		return nil, errors.New("connection refused")
	}
	res.Header.Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	res.Body = io.NopCloser(strings.NewReader(body))
	return res, nil
}

func (s *server) Cluster() bool { return false }

func (s *server) Do(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range cmds {
		switch {
		case s.down:
			replies[i].Err = errors.New("connection refused")
		case strings.Contains(c.Head[1], "ZRANGE"):
			items := []string{strconv.Itoa(s.version), "id", strconv.FormatInt(time.Now().Add(ahead).UnixMilli(), 10)}
			for _, r := range s.records {
				text, _ := json.Marshal(r)
				items = append(items, string(text))
			}
			replies[i].Items = items
		case c.Keys[0] == adjusted.Key:
			replies[i].Items = []string{fmt.Sprint(s.version, " id")}
		case len(c.Args) > 1:
			replies[i].Items = []string{"1 x"}
		default:
			replies[i].Items = []string{`{"text":` + strconv.Quote(policyText("1/s")) + `}`}
		}
	}
}

// TestFollowAdjustments checks that Adopt gets each change of the adjustments of keys, over Redis and
// over HTTP. One ends at its time by the clock of the source, even without the source.
func TestFollowAdjustments(t *testing.T) {
	for _, from := range []string{"Redis", "HTTP"} {
		t.Run(from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				s := &server{version: 1, changed: make(chan struct{}), link: `<published/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`}
				f := &weirfile.Follower{Trouble: func(err error) { d.add("trouble: %v", err) }, Adopt: func(f *weirfile.File) error {
					blocked := ""
					for _, key := range []string{"192.0.2.1", "192.0.2.2"} {
						if a, ok := f.Policies.Adjusted("a|" + strconv.Itoa(len(key)) + ":" + key); ok && a.Block {
							blocked += " " + key
						}
					}
					d.add("blocked:%s", blocked)
					return nil
				}}
				if from == "Redis" {
					f.Redis = s
				} else {
					f.URL, f.Client = "http://weir.example/v1/published", &http.Client{Transport: s}
				}
				follow(t, f, &d, []step{
					{"no adjustments", func() {}, "blocked:"},
					{"freeze", s.block("192.0.2.1", 0), "blocked: 192.0.2.1"},
					{"lift", s.block("", 0), "blocked:"},
					{"block", s.block("192.0.2.2", 14500*time.Millisecond), "blocked: 192.0.2.2"},
					{"no source", s.stop, "trouble: "},
					{"the end of the block", func() {}, "blocked:"},
				})
				if !f.Adjusts() {
					t.Error("Adjusts = false, want true")
				}
			})
		})
	}
}

// TestAdjustmentsLink checks that a Follower asks for adjustments only if the server of the text
// names them, and only at this server.
func TestAdjustmentsLink(t *testing.T) {
	for link, want := range map[string]bool{
		`<published/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`:                         true,
		`<http://weir.example/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`:               true,
		`<http://other.example/v1/published/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`: false,
		`<https://weir.example/v1/published/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`: false,
		`<published/adjustments>; rel="next"`:                                                    false,
		``:                                                                                       false,
		`published/adjustments`:                                                                  false,
		`<%zz/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`:                               false,
	} {
		synctest.Test(t, func(t *testing.T) {
			var d diary
			s, f := &server{version: 1, changed: make(chan struct{}), link: link}, d.follower()
			f.URL, f.Client = "http://weir.example/v1/published", &http.Client{Transport: s}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = f.Run(ctx)
			if s.asked > 0 != want || f.Adjusts() != want {
				t.Errorf("Link: %s: %d requests, Adjusts = %v, want %v", link, s.asked, f.Adjusts(), want)
			}
		})
	}
}
