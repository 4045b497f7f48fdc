package encodings_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/cmd/weir/internal/encodings"
)

// A writer compresses, and passes on at Flush what was written.
type writer interface {
	io.WriteCloser
	Flush() error
}

func writers(t *testing.T, to io.Writer) map[string]writer {
	z, err := zstd.NewWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]writer{"br": brotli.NewWriter(to), "zstd": z}
}

const (
	sse   = "text/event-stream"
	usage = `data: {"object":"chat.completion.chunk","model":"m1","usage":{"prompt_tokens":7,"completion_tokens":5}}` + "\n\n"
)

// TestStream checks that the usage of a stream is read, in pieces of every size, also if the
// stream was cut after it.
func TestStream(t *testing.T) {
	for _, encoding := range []string{"br", "zstd"} {
		for _, cut := range []bool{false, true} {
			for _, piece := range []int{1, 7, 1 << 20} {
				var b bytes.Buffer
				w := writers(t, &b)[encoding]
				for _, text := range []string{strings.Repeat(": comment\n\n", 1000), usage} {
					_, _ = io.WriteString(w, text)
					_ = w.Flush()
				}
				if !cut {
					_ = w.Close()
				}
				r := budget.NewReader(budget.Auto, sse, encoding, encodings.Decoders())
				for b.Len() > 0 {
					_, _ = r.Write(b.Next(piece))
				}
				_ = r.Close()
				if u, err := r.Usage(); u.Input != 7 || u.Output != 5 || err != nil {
					t.Errorf("%s, cut %t, pieces of %d: Usage = %+v, %v, want 7 and 5 tokens", encoding, cut, piece, u, err)
				}
			}
		}
	}
}

// TestBroken checks that a body that is not compressed as its header says, a window that is too
// large, and a body that grows without bound are invalid.
func TestBroken(t *testing.T) {
	large, err := zstd.NewWriter(nil, zstd.WithWindowSize(16<<20))
	if err != nil {
		t.Fatal(err)
	}
	window := large.EncodeAll(bytes.Repeat([]byte("0123456789abcdef"), 2<<20), nil)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
	}{
		"text as br": {"br", []byte(strings.Repeat(usage, 9))}, "text as zstd": {"zstd", []byte(usage)}, "window of 16 MiB": {"zstd", window},
		"bomb of br": {"br", bomb(t, "br")}, "bomb of zstd": {"zstd", bomb(t, "zstd")},
	} {
		r := budget.NewReader(budget.Auto, sse, c.encoding, encodings.Decoders())
		_, _ = r.Write(c.body)
		_ = r.Close()
		if _, err := r.Usage(); !errors.Is(err, budget.ErrBadUsage) {
			t.Errorf("%s, %d bytes: Usage = %v, want %v", name, len(c.body), err, budget.ErrBadUsage)
		}
	}
}

// bomb returns a small body that becomes more than 256 MiB.
func bomb(t *testing.T, encoding string) []byte {
	var b bytes.Buffer
	w := writers(t, &b)[encoding]
	zeros := make([]byte, 1<<20)
	for range 257 {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	return b.Bytes()
}
