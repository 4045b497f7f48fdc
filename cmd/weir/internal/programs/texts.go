package programs

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/weirfile"
)

const (
	// maxHeld bounds the requests that are held back; one more is answered at once.
	maxHeld = 1000

	// maxWait is the longest time for which a request is held back.
	maxWait = 20 * time.Second
)

// Texts serves the text of the published policies in force. It is safe for concurrent use.
//
// A request with the ETag of the text in If-None-Match gets 304. With the field "Prefer:
// wait=SECONDS" (RFC 7240) it is held back for up to that time, until the text changes.
type Texts struct {
	kind string // Content-Type
	link string // the field Link; "" for none
	held atomic.Int64

	mu      sync.Mutex
	now     text
	closed  bool
	changed chan struct{} // closed at the next change
}

// A text is one version. Without one, its tag is empty.
type text struct {
	number  int64
	tag     string
	content string
}

// NewTexts returns Texts without a text. A response has a Link to "published/adjustments", relative
// to its path.
func NewTexts() *Texts {
	return &Texts{kind: "application/yaml", link: `<published/adjustments>; rel="` + weirfile.AdjustmentsRel + `"`, changed: make(chan struct{})}
}

// NewAdjustments returns Texts for the adjustments of single keys in JSON, which have no number.
func NewAdjustments() *Texts {
	return &Texts{kind: "application/json", changed: make(chan struct{})}
}

// Set replaces the text.
func (t *Texts) Set(number int64, content string) {
	sum := sha256.Sum256([]byte(content)) // a Redis that lost its data counts from 1 again
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = text{number, fmt.Sprintf(`"%d-%x"`, number, sum[:8]), content}
	t.wake()
}

// Close answers the requests that are held back, and holds no more.
func (t *Texts) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.wake()
}

// wake answers the requests that are held back. It requires mu.
func (t *Texts) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Texts) current() (now text, changed <-chan struct{}, closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, t.changed, t.closed
}

// ServeHTTP implements [http.Handler].
func (t *Texts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now, changed, closed := t.current()
	if wait := preferred(r); wait > 0 && !closed && now.tag != "" && matches(r, now.tag) {
		if t.held.Add(1) <= maxHeld {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
			select {
			case <-changed:
				now, _, _ = t.current()
			case <-timer.C:
			case <-r.Context().Done():
			}
		}
		t.held.Add(-1)
	}
	if now.tag == "" {
		problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "no published policies in force: this node follows them with --policies store, after weir apply"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", t.kind)
	if t.link != "" {
		h.Set("Link", t.link)
	}
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", now.tag)
	if now.number > 0 {
		h.Set(weirfile.VersionField, strconv.FormatInt(now.number, 10))
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(now.content))
}

// preferred returns the time for which r may be held back, at most maxWait.
func preferred(r *http.Request) time.Duration {
	for _, field := range r.Header.Values("Prefer") {
		for one := range strings.SplitSeq(field, ",") {
			value, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(one)), "wait=")
			if n, err := strconv.ParseUint(value, 10, 31); ok && err == nil {
				return min(time.Duration(n)*time.Second, maxWait)
			}
		}
	}
	return 0
}

// matches reports whether If-None-Match has the tag.
func matches(r *http.Request, tag string) bool {
	for _, field := range r.Header.Values("If-None-Match") {
		for one := range strings.SplitSeq(field, ",") {
			if strings.TrimPrefix(strings.TrimSpace(one), "W/") == tag {
				return true
			}
		}
	}
	return false
}
