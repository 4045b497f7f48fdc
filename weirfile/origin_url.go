package weirfile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/published"
)

// VersionField is the response field with the number of a published version, for a Follower.
const VersionField = "Weir-Version"

const (
	// holdTime is the time for which a server may hold a request back.
	holdTime = 10 * time.Second

	// requestTimeout bounds a request beside holdTime.
	requestTimeout = 5 * time.Second

	// maxBackoff is the longest interval between requests while they fail.
	maxBackoff = 5 * time.Second

	// maxDetail bounds the part of an error response that is reported, in bytes.
	maxDetail = 200
)

// A urlSource reads a text over HTTP.
type urlSource struct {
	url    string
	shown  string // without a password
	token  string
	client http.Client
	every  time.Duration

	etag  string // of the last text; "" if there is none
	last  [sha256.Size]byte
	known bool // last is set

	missing bool // the last response was 404: there is no text yet

	link chan string // the address of the adjustments; capacity 1
}

func newURLSource(f *Follower) (*urlSource, error) {
	u, err := url.Parse(f.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("weirfile: follow: URL: %w: want an http or https URL with a host", weir.ErrInvalid)
	}
	if strings.ContainsFunc(f.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, fmt.Errorf("weirfile: follow: Token: %w: want ASCII without spaces", weir.ErrInvalid)
	}
	s := &urlSource{url: f.URL, shown: u.Redacted(), token: f.Token, every: f.Every, link: make(chan string, 1)}
	if s.every <= 0 {
		s.every = published.DefaultEvery
	}
	if f.Client != nil {
		s.client = *f.Client
	}
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

func (s *urlSource) load(ctx context.Context, adopt func(revision) error) error {
	err, failed := s.poll(ctx, adopt)
	return cmp.Or(err, failed)
}

func (s *urlSource) follow(ctx context.Context, adopt func(revision) error, observe func(error)) {
	pause := s.every
	for ctx.Err() == nil {
		begin := time.Now()
		err, _ := s.poll(ctx, adopt)
		if ctx.Err() != nil {
			return
		}
		observe(err)
		wait := s.every - time.Since(begin) // none after a request that was held back
		if err == nil || s.missing {
			pause = s.every
		} else {
			pause = min(2*pause, max(maxBackoff, s.every))
			wait = pause/2 + rand.N(pause/2+1) // not all programs at once
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// poll asks for the text, and passes it to adopt if it has changed. It returns the errors of
// both.
func (s *urlSource) poll(ctx context.Context, adopt func(revision) error) (err, failed error) {
	ctx, cancel := context.WithTimeout(ctx, holdTime+requestTimeout)
	defer cancel()
	res, err := s.get(ctx, s.url, "application/yaml, text/plain;q=0.9, */*;q=0.1", s.etag)
	s.missing = err == nil && res.StatusCode == http.StatusNotFound
	if err != nil {
		return err, nil
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && s.known:
		return nil, nil
	case res.StatusCode != http.StatusOK:
		return unexpected(res), nil
	}
	s.announce(res)
	data, err := io.ReadAll(io.LimitReader(res.Body, MaxSize+1))
	if err != nil {
		return fmt.Errorf("weirfile: GET %s: %w", s.shown, err), nil
	}
	sum := sha256.Sum256(data)
	number, _ := strconv.ParseInt(res.Header.Get(VersionField), 10, 64) // 0: none
	sum = sha256.Sum256(fmt.Appendf(sum[:], "%d", number))
	s.etag = res.Header.Get("ETag")
	if s.known && sum == s.last {
		return nil, nil
	}
	s.known, s.last = true, sum
	return nil, adopt(revision{name: s.shown, number: max(number, 0), data: data})
}

// get sends a request that the server may hold back, if it has a tag.
func (s *urlSource) get(ctx context.Context, to, accept, etag string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, fmt.Errorf("weirfile: %w", err)
	}
	r.Header.Set("Accept", accept)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
		r.Header.Set("Prefer", "wait="+strconv.Itoa(int(holdTime/time.Second)))
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	res, err := s.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("weirfile: GET %s: %w", r.URL.Redacted(), err)
	}
	return res, nil
}

// unexpected returns the error for a response that has nothing to use.
func unexpected(res *http.Response) error {
	detail, _ := io.ReadAll(io.LimitReader(res.Body, maxDetail))
	text := strings.Join(strings.Fields(string(detail)), " ")
	if at := res.Header.Get("Location"); at != "" {
		text = fmt.Sprintf("want the final URL, got a redirect to %.200s", at)
	}
	return fmt.Errorf("weirfile: GET %s: got %s, want 200 or 304: %q", res.Request.URL.Redacted(), res.Status, text)
}
