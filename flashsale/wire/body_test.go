package wire_test

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/wire"
)

// TestBodies reads bodies of all sizes, with and without a Content-Length, into reused buffers.
func TestBodies(t *testing.T) {
	var bodies wire.Bodies
	for _, n := range []int{1, 511, 512, 513, wire.MaxBody, wire.MaxBody + 1, 2, 600} {
		for _, known := range []bool{true, false} {
			want := []byte(strings.Repeat("x", n))
			r := httptest.NewRequest("POST", "/", io.NopCloser(bytes.NewReader(want)))
			r.Header.Set("Content-Type", "application/json")
			if known {
				r.ContentLength = int64(n)
			}
			got, buffer, f := bodies.Read(r)
			switch {
			case n > wire.MaxBody && (f == nil || f.Status != 413):
				t.Errorf("%d bytes, length known %v: %+v, want 413", n, known, f)
			case n <= wire.MaxBody && (f != nil || !bytes.Equal(got, want)):
				t.Errorf("%d bytes, length known %v: read %d, %+v", n, known, len(got), f)
			}
			bodies.Release(buffer)
		}
	}
	r := httptest.NewRequest("POST", "/", io.NopCloser(strings.NewReader("{}")))
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = 3
	if _, _, f := bodies.Read(r); f == nil || !strings.Contains(f.Detail, "Content-Length") {
		t.Errorf("a body that is shorter than its length: %+v", f)
	}
}
