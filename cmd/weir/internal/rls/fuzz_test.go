package rls_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fuzzConfig has a descriptor of every kind.
const fuzzConfig = `
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3, name: user}}
  - {key: block, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: quota, quota_mode: true, rate_limit: {unit: second, requests_per_unit: 3, count: all}, metadata: {a: [1, {b: c}]}}
  - {key: wild, value: "a*b*c", share_threshold: true, detailed_metric: true, rate_limit: {window: 30s, requests_per_unit: 3, algorithm: token_bucket, burst: 5}}
  - {key: best, value_to_metric: true, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 3, algorithm: sliding_window, replaces: [{name: user}]}}]}
`

// FuzzRequest sends any message: the response has a status per descriptor, and no limit
// is exceeded.
func FuzzRequest(f *testing.F) {
	for _, line := range []string{
		"user=a", "user=a hits=5 + block=a + free=a", "shadow=a hits=9 + quota=a + wild=abc", "best=x user=y + user=y",
		"user=a @limit=2/HOUR", "user=a @refund @hits=3", "quota=a @hits=0", "wild=axbxc @hits=18446744073709551615", "none",
		"domain=x user=a", "user=a @limit=0/UNKNOWN", "user=a @limit=4294967295/YEAR @refund",
	} {
		data, err := proto.Marshal(parseRequest(&testing.T{}, "d", line))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	s := newServer(f, rls.Config{Limits: parse(f, fuzzConfig), ResponseHeaders: true, DynamicMetadata: true, Observe: func(rls.Event) {}})
	f.Fuzz(func(t *testing.T, data []byte) {
		var r pb.RateLimitRequest
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		answer, err := s.ShouldRateLimit(t.Context(), &r)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("error %v", err)
			}
			return
		}
		if len(answer.GetStatuses()) != len(r.GetDescriptors()) || answer.GetOverallCode() == pb.RateLimitResponse_UNKNOWN {
			t.Errorf("answer %v to %v", answer, &r)
		}
		for i, st := range answer.GetStatuses() {
			own := r.GetDescriptors()[i]
			if c := st.GetCurrentLimit(); c != nil && own.GetLimit() != nil && st.GetLimitRemaining() > c.GetRequestsPerUnit() {
				t.Errorf("%d left of %d", st.GetLimitRemaining(), c.GetRequestsPerUnit())
			}
			if st.GetDurationUntilReset().GetSeconds() < 0 {
				t.Errorf("reset %v", st.GetDurationUntilReset())
			}
		}
	})
}

// FuzzJSON sends any body: the status is a documented one.
func FuzzJSON(f *testing.F) {
	f.Add(`{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "a"}], "hitsAddend": "3"}]}`)
	f.Add(`{"domain": "d", "descriptors": [{"entries": [{"key": "x"}], "limit": {"unit": 3}}]}`)
	f.Add(`{"domain": "d", "descriptors": [null]}`)
	f.Add(strings.Repeat("[", 1000))
	files, err := filepath.Glob("testdata/matrix/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	h := newServer(f, rls.Config{Limits: parse(f, fuzzConfig), DynamicMetadata: true}).JSON()
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(body)))
		switch w.Code {
		case 200, 429, 400, 413:
		default:
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}
