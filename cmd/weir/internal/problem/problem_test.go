package problem_test

import (
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

func TestWrite(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("ETag", "x")
	w.Header().Set("RateLimit", "kept")
	problem.Write(w, problem.Problem{Status: 404, Detail: `no "such"`, Field: "f"})
	want := `{"title":"Not Found","status":404,"detail":"no \"such\"","field":"f"}` + "\n"
	h := w.Header()
	if w.Code != 404 || w.Body.String() != want || h.Get("Content-Type") != "application/problem+json" || h.Get("ETag") != "" || h.Get("RateLimit") != "kept" {
		t.Errorf("Write = %d %v %s", w.Code, h, w.Body)
	}
}
