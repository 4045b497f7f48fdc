package replay_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/floodweir/weir/internal/replay"
)

// TestRead checks that a body is read up to the bound, and that the request then has all of it.
func TestRead(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name   string
		body   io.Reader
		length int64
		max    int64
		want   string // "" for an error
		err    error
		later  string
	}{
		{"whole", strings.NewReader("abc"), 3, 3, "abc", nil, "abc"},
		{"of unknown length", iotest.OneByteReader(strings.NewReader("abc")), -1, 3, "abc", nil, "abc"},
		{"long", strings.NewReader(strings.Repeat("a", 10000)), 10000, 10000, strings.Repeat("a", 10000), nil, strings.Repeat("a", 10000)},
		{"too long", strings.NewReader("abcd"), 4, 3, "", replay.ErrTooLong, "abcd"},
		{"too long, of unknown length", iotest.OneByteReader(strings.NewReader("abcdefgh")), -1, 3, "", replay.ErrTooLong, "abcdefgh"},
		{"broken", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), 4, 9, "", broken, "ab"},
		{"above the memory", strings.NewReader(strings.Repeat("a", 100000)), -1, 1 << 20, "", replay.ErrFull, strings.Repeat("a", 100000)},
	} {
		memory := &replay.Memory{Max: 50000}
		closed := false
		r := httptest.NewRequest(http.MethodPost, "/", reader(func(p []byte) (int, error) {
			if closed {
				return 0, http.ErrBodyReadAfterClose
			}
			return tc.body.Read(p)
		}))
		r.ContentLength = tc.length
		var b replay.Body
		for range 2 {
			got, err := b.Read(httptest.NewRecorder(), r, tc.max, time.Minute, memory)
			if string(got) != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("%s: Read = %d bytes, %v, want %d, %v", tc.name, len(got), err, len(tc.want), tc.err)
			}
		}
		if tc.want != "" {
			closed = true // as a server does when the response begins
		}
		later, err := io.ReadAll(r.Body)
		if string(later) != tc.later || (err != nil) != errors.Is(tc.err, broken) {
			t.Errorf("%s: the handler read %d bytes, %v, want %d", tc.name, len(later), err, len(tc.later))
		}
		b.Release()
		all := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("a", 49999)))
		var next replay.Body
		if _, err := next.Read(httptest.NewRecorder(), all, 50000, time.Minute, memory); err != nil {
			t.Errorf("%s: memory was not released: %v", tc.name, err)
		}
	}
}

// TestReadMore checks a second bound, a body that is replaced, and a request without a body.
func TestReadMore(t *testing.T) {
	memory := &replay.Memory{Max: 1 << 20}
	r := httptest.NewRequest(http.MethodPost, "/", iotest.OneByteReader(strings.NewReader("abcdef")))
	var b replay.Body
	if _, err := b.Read(httptest.NewRecorder(), r, 2, time.Minute, memory); !errors.Is(err, replay.ErrTooLong) {
		t.Fatalf("Read = %v, want ErrTooLong", err)
	}
	if got, err := b.Read(httptest.NewRecorder(), r, 10, time.Minute, memory); string(got) != "abcdef" || err != nil {
		t.Fatalf("Read = %q, %v, want the whole body", got, err)
	}
	r.Header.Set("Content-Length", "6")
	b.Replace(r, []byte("other text"))
	if got, err := io.ReadAll(r.Body); string(got) != "other text" || err != nil || r.ContentLength != 10 || r.Header.Get("Content-Length") != "10" {
		t.Errorf("replaced body %q, %v, length %d, want the other text", got, err, r.ContentLength)
	}
	var none replay.Body
	if got, err := none.Read(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), 10, time.Minute, memory); got != nil || err != nil {
		t.Errorf("Read without a body = %q, %v", got, err)
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }
