package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
)

// read returns the entries of a log.
func read(t *testing.T, log string, c accesslog.Config) (*accesslog.Reader, []accesslog.Entry) {
	t.Helper()
	r, err := accesslog.NewReader("log", strings.NewReader(log), c)
	if err != nil {
		t.Fatalf("NewReader(%.100q) = %v", log, err)
	}
	var all []accesslog.Entry
	var e accesslog.Entry
	for r.Next(&e) {
		all = append(all, e)
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return r, all
}

// TestFormats reads one request in every format.
func TestFormats(t *testing.T) {
	const at = 1764000000 * 1000000 // 2025-11-24T16:00:00Z
	for _, test := range []struct {
		name, layout, log, format string
		at                        int64
		coarse                    bool
		duration                  int64
	}{
		{"nginx combined", "", `203.0.113.9 - ada [24/Nov/2025:16:00:00 +0000] "GET /a?b=1 HTTP/1.1" 404 12 "-" "curl \x22x\x22"`, "combined", at, true, -1},
		{"Apache combined", "", `203.0.113.9 - - [24/Nov/2025:17:00:00 +0100] "GET /a?b=1 HTTP/1.1" 404 - "http://x/" "curl \"x\""`, "combined", at, true, -1},
		{"common", "", `203.0.113.9 - - [24/Nov/2025:16:00:00 +0000] "GET /a?b=1 HTTP/1.1" 404 12`, "common", at, true, -1},
		{"Traefik", "", `203.0.113.9 - - [24/Nov/2025:16:00:00 +0000] "GET /a?b=1 HTTP/1.1" 404 19 "-" "curl \"x\"" 1 "-" "-" 0ms`, "combined", at, true, -1},
		{"virtual hosts", "", `example.com:443 203.0.113.9 - - [24/Nov/2025:16:00:00 +0000] "GET /a?b=1 HTTP/1.1" 404 12 "-" "curl \"x\""`, "vhost_combined", at, true, -1},
		{"nginx custom", `$remote_addr $msec ${request_time} $host "$request" $status "$http_user_agent"`, `203.0.113.9 1764000000.250 0.250 example.com "GET /a?b=1 HTTP/2.0" 404 "curl \x22x\x22"`, "custom", at, false, 250000},
		{"nginx with the query apart", `[$time_iso8601] $remote_addr $request_method $uri $args $status $request_time`, `[2025-11-24T16:00:01+00:00] 203.0.113.9 GET /a b=1 404 1.000`, "custom", at, true, 1000000},
		{"Apache custom", `%a %{Host}i %t %D \"%r\" %>s \"%{User-Agent}i\"`, `203.0.113.9 example.com [24/Nov/2025:16:00:00 +0000] 250000 "GET /a?b=1 HTTP/1.1" 404 "curl \"x\""`, "custom", at, true, 250000},
		{"Envoy", "", `[2025-11-24T16:00:00.250Z] "GET /a?b=1 HTTP/1.1" 404 - 0 154 3 2 "198.51.100.1, 203.0.113.9" "curl x" "cc21d9b0" "example.com" "10.0.0.1:80"`, "envoy", at + 250000, false, 3000},
		{"Envoy JSON", "", `{"start_time":"2025-11-24T16:00:00.250Z","duration":3,"method":"GET","path":"/a?b=1","authority":"example.com","response_code":404,"x_forwarded_for":"203.0.113.9","bytes_sent":1}`, "json", at + 250000, false, 3000},
		{"Caddy", "", `{"level":"info","ts":1764000000.25,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"127.0.0.1","client_ip":"203.0.113.9","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/a?b=1","headers":{"User-Agent":["curl"]}},"duration":0.25,"status":404}`, "json", at, false, 250000},
		{"Traefik JSON", "", `{"ClientHost":"203.0.113.9","DownstreamStatus":404,"Duration":250000000,"RequestHost":"example.com","RequestMethod":"GET","RequestPath":"/a?b=1","StartUTC":"2025-11-24T16:00:00.000000001Z","time":"2025-11-24T16:00:00.1Z"}`, "json", at + 100000, false, 250000},
		{"nginx JSON", "", `{"msec":"1764000000.250","request_time":"0.250","remote_addr":"203.0.113.9","request":"GET /a?b=1 HTTP/1.1","status":"404"}`, "json", at, false, 250000},
		{"CSV", "", "time,client_ip,method,host,path,status,duration\n2025-11-24T16:00:00Z,203.0.113.9,GET,example.com,/a?b=1,404,0.25\n", "csv", at, true, 250000},
		{"CSV with milliseconds", "", "\xef\xbb\xbfclient_ip,time,note,method,path,status\n203.0.113.9,1764000000001,\"a, b\",GET,/a?b=1,404\n", "csv", at + 1000, false, -1},
	} {
		r, all := read(t, test.log, accesslog.Config{Layout: test.layout})
		if len(all) != 1 || r.Stats.Rejected > 0 || r.Format != test.format {
			t.Errorf("%s: %d entries, %+v in format %q, want 1 in %q", test.name, len(all), r.Stats, r.Format, test.format)
			continue
		}
		e := all[0]
		if e.At != test.at || e.Coarse != test.coarse || e.Duration != test.duration {
			t.Errorf("%s: at %d, coarse %t, duration %d, want %d, %t, %d", test.name, e.At, e.Coarse, e.Duration, test.at, test.coarse, test.duration)
		}
		if e.Client != netip.MustParseAddr("203.0.113.9") || e.Method != "GET" || e.Path != "/a?b=1" || e.Status != 404 {
			t.Errorf("%s: %+v, want GET /a?b=1 with 404 of 203.0.113.9", test.name, e)
		}
		if strings.Contains(test.log, "example.com") && strings.TrimSuffix(e.Host, ":443") != "example.com" {
			t.Errorf("%s: host %q, want example.com", test.name, e.Host)
		}
		if strings.Contains(test.log, `\"x\"`) && e.Agent != `curl "x"` || strings.Contains(test.log, `\x22`) && e.Agent != `curl "x"` {
			t.Errorf("%s: user agent %q, want curl \"x\"", test.name, e.Agent)
		}
	}
}

// TestRejected checks that lines of another kind are counted and do not end the log.
func TestRejected(t *testing.T) {
	line := `203.0.113.9 - - [24/Nov/2025:16:00:0%d +0000] "GET / HTTP/1.1" 200 1` + "\n"
	log := fmt.Sprintf(line, 1) + "\n" + "truncated [24/No\n" + strings.Repeat("x", 3<<20) + "\n" + fmt.Sprintf(line, 2) + `203.0.113.9 - - [24/Nov/2025:16:61:00 +0000] "GET / HTTP/1.1" 200 1` + "\n" + `1.2.3.4 - - [24/Nov/2025:16:00:09 +0000] "\x16\x03\x01" 400 0`
	r, all := read(t, log, accesslog.Config{})
	if len(all) != 3 || r.Stats.Lines != 6 || r.Stats.Rejected != 3 || !strings.Contains(r.Stats.Example, "truncated") {
		t.Errorf("%d entries, %+v, want 3 of 6 lines, 3 rejected", len(all), r.Stats)
	}
	if len(all) == 3 && (all[2].Method != "" || all[2].Status != 400) {
		t.Errorf("a TLS hello is %+v, want no method and status 400", all[2])
	}
}

// TestGzip reads a compressed log, and reports one that ends early.
func TestGzip(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 1000 {
		fmt.Fprintf(z, "{\"time\":%d.5,\"ip\":\"192.0.2.%d\",\"n\":%d}\n", 1764000000+i, i%256, rand.Int64())
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, all := read(t, b.String(), accesslog.Config{}); len(all) != 1000 || all[999].Client.String() != "192.0.2.231" {
		t.Errorf("%d entries, want 1000", len(all))
	}
	r, err := accesslog.NewReader("cut.gz", bytes.NewReader(b.Bytes()[:b.Len()-100]), accesslog.Config{})
	var e accesslog.Entry
	for err == nil && r.Next(&e) {
	}
	if err == nil {
		err = r.Err()
	}
	if err == nil || !strings.HasPrefix(err.Error(), "cut.gz: ") {
		t.Errorf("a truncated log gives %v, want an error", err)
	}
}

// TestInvalid checks the errors of logs without a known format.
func TestInvalid(t *testing.T) {
	for _, test := range []struct {
		log  string
		c    accesslog.Config
		want string
	}{
		{"hello world\n", accesslog.Config{}, `line 1: invalid: got "hello world", want a line of vhost_combined, combined`},
		{"{}\n", accesslog.Config{Format: "xml"}, `format: invalid: got "xml", want one of vhost_combined`},
		{"a,b\n", accesslog.Config{Format: "csv"}, "want a CSV header with time"},
		{"", accesslog.Config{Layout: "$remote_addr"}, "log format: invalid"},
		{"", accesslog.Config{Layout: "$msec$host"}, "$host directly after another variable"},
		{"", accesslog.Config{Layout: "$msec", Format: "json"}, "want one of them"},
	} {
		_, err := accesslog.NewReader("log", strings.NewReader(test.log), test.c)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("NewReader(%q, %+v) = %v, want %q", test.log, test.c, err, test.want)
		}
	}
}

// TestSorter checks that entries come out in order, and that those beyond the window are
// counted.
func TestSorter(t *testing.T) {
	var s accesslog.Sorter
	var got []int64
	emit := func(e *accesslog.Entry) { got = append(got, e.At) }
	var want []int64
	random := rand.New(rand.NewPCG(1, 1))
	for i := range int64(20_000) {
		at := i*10_000 + random.Int64N(accesslog.Window.Microseconds()-10_000)
		want = append(want, at)
		s.Add(&accesslog.Entry{At: at}, emit)
	}
	s.Add(&accesslog.Entry{At: 1}, emit)
	s.Flush(emit)
	slices.Sort(want)
	if !slices.Equal(got, want) || s.Late != 1 {
		t.Errorf("%d entries in order: %t, %d late, want %d and 1 late", len(got), slices.IsSorted(got), s.Late, len(want))
	}
}

// TestDecisionLog checks that lines of one request in the decision log are one entry.
func TestDecisionLog(t *testing.T) {
	line := `{"time":"2025-11-24T16:00:00.9Z","level":"INFO","msg":"decision","interface":"gateway","policy":"%s","outcome":"%s",%s"at":"2025-11-24T16:00:00.000%03dZ","key":"p|9:%s","method":"GET","path":"/"}` + "\n"
	log := fmt.Sprintf(line, "a", "held", "", 1, "192.0.2.1") + fmt.Sprintf(line, "a", "admitted", "", 1, "192.0.2.2") +
		fmt.Sprintf(line, "b", "denied", "", 1, "192.0.2.1") + fmt.Sprintf(line, "a", "denied", `"shadow":true,`, 2, "192.0.2.1")
	r, all := read(t, `{"time":"2025-11-24T15:59:59Z","level":"INFO","msg":"listening","url":"http://127.0.0.1:8000"}`+"\n"+log, accesslog.Config{})
	if r.Stats.Rejected > 0 {
		t.Errorf("%+v, want none rejected", r.Stats)
	}
	var s accesslog.Sorter
	var got []string
	emit := func(e *accesslog.Entry) { got = append(got, fmt.Sprint(e.At%1e6, " ", e.Client, " ", e.Status)) }
	for i := range all {
		s.Add(&all[i], emit)
	}
	s.Flush(emit)
	if want := []string{"1 192.0.2.1 0", "1 192.0.2.2 0", "1 192.0.2.1 429"}; !slices.Equal(got, want) {
		t.Errorf("entries = %q, want %q", got, want)
	}
}
