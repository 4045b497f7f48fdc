package decoded_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/decoded"
)

// TestDecodesAtOnce checks that flushed bytes are passed on before the next write, and that a body
// that is cut is no error.
func TestDecodesAtOnce(t *testing.T) {
	var got, b bytes.Buffer
	w, err := decoded.New("GZIP", func(p []byte) { got.Write(p) })
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
	if _, err := decoded.New("br", nil); err == nil {
		t.Error("New(br) = nil, want an error")
	}
	w, err := decoded.New("gzip", func([]byte) {})
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
