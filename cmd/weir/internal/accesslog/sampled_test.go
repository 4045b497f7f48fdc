package accesslog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
)

// TestSampled checks that a log that misses requests is refused, unless that is set.
func TestSampled(t *testing.T) {
	decision := `{"time":"2025-11-24T16:00:00Z","msg":"decision","policy":"a","outcome":"admitted","at":"2025-11-24T16:00:00.000001Z","method":"GET"`
	for _, test := range []struct {
		line    string
		sampled bool
	}{
		{decision + `}`, false},
		{decision + `,"suppressed":1}`, true},
		{decision + `,"every":100}`, true},
		{strings.Repeat(strings.ReplaceAll(decision, "admitted", "denied")+"}\n", 20), true},
		{strings.Repeat(strings.ReplaceAll(decision, "admitted", "denied")+"}\n", 20) + decision + `}`, false},
		{`{"ts":1764000000.5,"method":"GET","sample_rate":0.01}`, true},
		{`{"ts":1764000000.5,"method":"GET","sample_rate":"1"}`, false},
		{"time,path,sample_rate\n1764000000.5,/,10", true},
		{"time,path,sample_rate\n1764000000.5,/,1", false},
	} {
		for _, allowed := range []bool{false, true} {
			r, err := accesslog.NewReader("log", strings.NewReader(test.line+"\n"), accesslog.Config{Sampled: allowed})
			if err != nil {
				t.Fatal(err)
			}
			var e accesslog.Entry
			for r.Next(&e) {
			}
			if err := r.Err(); errors.Is(err, weir.ErrInvalid) != (test.sampled && !allowed) {
				t.Errorf("%.300s, allowed %t: %v", test.line, allowed, err)
			}
		}
	}
}

// TestRetryAfter reads the wait that a response asks for.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		layout, log string
		want        int64
	}{
		{"", `{"ts":1764000000.5,"request":{"method":"GET"},"resp_headers":{"Retry-After":["41"]},"status":429}`, 41e6},
		{"", `{"time":1764000000.5,"method":"GET","retry_after":"1.5s"}`, 15e5},
		{"", `{"time":1764000000.5,"method":"GET","retry_after":"never"}`, 0},
		{"", `{"time":1764000000.5,"method":"GET","downstream_Retry-After":"7"}`, 7e6},
		{"$msec $status $sent_http_retry_after", "1764000000.5 429 3", 3e6},
		{"%{msec}t %s %{Retry-After}o", "1764000000500 429 3", 3e6},
		{"%START_TIME% %RESP(RETRY-AFTER)%", "2025-11-24T16:00:00.250Z -", 0},
	} {
		_, all := read(t, test.log, accesslog.Config{Layout: test.layout})
		if len(all) != 1 || all[0].RetryAfter != test.want {
			t.Errorf("%s: %+v, want a wait of %d", test.log, all, test.want)
		}
	}
}
