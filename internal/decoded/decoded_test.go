package decoded_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/decoded"
)

// TestDecodesAtOnce checks that flushed bytes are passed on before the next write, and that a body
// that is cut is no error.
func TestDecodesAtOnce(t *testing.T) {
	var got, b bytes.Buffer
	w, err := decoded.New("GZIP", nil, func(p []byte) { got.Write(p) })
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&b)
	for i := range 3 {
		_, _ = z.Write([]byte("event\n"))
		_ = z.Flush()
		_, _ = w.Write(b.Bytes())
		b.Reset()
		if i == 2 {
			if err := w.Close(); err != nil {
				t.Errorf("Close = %v, want nil", err)
			}
		}
	}
	if want := strings.Repeat("event\n", 3); got.String() != want {
		t.Errorf("decoded %q, want %q", got.String(), want)
	}
}

func TestErrors(t *testing.T) {
	if _, err := decoded.New("br", nil, nil); err == nil {
		t.Error("New(br) = nil, want an error")
	}
	w, err := decoded.New("gzip", nil, func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, _ = w.Write([]byte("no gzip, and no end"))
	}
	if err := w.Close(); err == nil || w.Close() != err {
		t.Errorf("Close = %v, want an error, twice", err)
	}
}

// TestMoreDecoders checks that a further decoder is used by its name, that a panic in it is an
// error, and that its output is bounded.
func TestMoreDecoders(t *testing.T) {
	decode := decoded.Decoders{
		"same":  func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil },
		"panic": func(io.Reader) (io.ReadCloser, error) { panic("broken") },
		"bomb":  func(io.Reader) (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil },
	}
	for encoding, want := range map[string]string{"Same": "", "panic": "broken", "bomb": "want at most 268435456 bytes", "other": "want gzip, deflate, bomb, panic, same or none"} {
		n := 0
		w, err := decoded.New(encoding, decode, func(p []byte) { n += len(p) })
		if err == nil {
			_, _ = w.Write([]byte("text"))
			err = w.Close()
		}
		if want == "" && (err != nil || n != 4) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d bytes, %v, want 4 bytes or the error %q", encoding, n, err, want)
		}
	}
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
