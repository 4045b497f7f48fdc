package accesslog

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// The formats as regular expressions: slow, and the reference for the scanner.
var (
	combinedPattern = regexp.MustCompile(`^(\S+) (\S+) (.+?) \[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}|-) (\d+|-)(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?(.*)$`)
	envoyPattern    = regexp.MustCompile(`^\[([^\]]+)\] "(\S+) (\S+) (\S+)" (\d+) (\S+) (\d+) (\d+) (\S+) (\S+) "([^"]*)" "([^"]*)" "([^"]*)" "([^"]*)" "([^"]*)"$`)
)

// oracle parses a line by the patterns.
func oracle(p *parser, line []byte, e *Entry) (name string, ok bool) {
	if m := combinedPattern.FindSubmatch(line); m != nil {
		name = "common"
		if m[8] != nil {
			name = "combined"
		}
		ok = p.set(e, client, m[1]) && p.set(e, start, m[4]) && p.set(e, request, unescape(m[5])) && p.set(e, status, m[6])
		if m[9] != nil {
			ok = ok && p.set(e, agent, unescape(m[9]))
		}
		return name, ok && e.finish()
	}
	if m := envoyPattern.FindSubmatch(line); m != nil {
		ok = p.set(e, start, m[1]) && p.set(e, method, m[2]) && p.set(e, path, m[3]) && p.set(e, status, m[5]) &&
			p.set(e, millis, m[9]) && p.set(e, forwarded, m[11]) && p.set(e, agent, m[12]) && p.set(e, host, m[14])
		return "envoy", ok && e.finish()
	}
	return "", false
}

// FuzzLayout compares the scanner with the patterns: what the patterns accept, the scanner
// reads with the same values.
func FuzzLayout(f *testing.F) {
	for _, line := range []string{
		`203.0.113.9 - ada lovelace [24/Nov/2025:16:00:00 +0000] "GET /a?b=1 HTTP/1.1" 404 12 "-" "curl \x22x\x22"`,
		`::1 - - [24/Nov/2025:16:00:00 +0000] "GET /\"\\ HTTP/1.1" 200 - "http://x/" "a\"b\\" 1 "-" "-" 0ms`,
		`localhost - - [24/Nov/2025:16:00:00 -0730] "" 408 0`,
		`203.0.113.9 - - [24/Nov/2025:16:00:00 +0000] "\x16\x03" 400 - "-" "-"`,
		`[2025-11-24T16:00:00.250Z] "GET /a?b=1 HTTP/1.1" 404 - 0 154 3 2 "198.51.100.1, 203.0.113.9" "curl x" "cc21d9b0" "example.com" "10.0.0.1:80"`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsAny(line, "\n\r") {
			return
		}
		p := &parser{texts: map[string]string{}}
		var want Entry
		want.reset()
		name, ok := oracle(p, line, &want)
		user := combinedPattern.FindSubmatch(line)
		if !ok || user != nil && (bytes.Contains(user[3], []byte(" [")) || bytes.IndexByte(user[4], '[') >= 0) {
			return // a user name that looks like a time
		}
		for _, l := range layouts {
			var got Entry
			got.reset()
			if l.name != name {
				continue
			}
			if !l.parse(p, line, &got) || !got.finish() || got != want {
				t.Errorf("%s: %q\n got %+v\nwant %+v", name, line, got, want)
			}
		}
	})
}

// FuzzReader checks that no input breaks the reader, and that it counts every line.
func FuzzReader(f *testing.F) {
	f.Add([]byte("time,client_ip\n1764000000,192.0.2.1\n\"x"))
	f.Add([]byte(`{"time":1e9,"request":{"headers":{"A":[]}}}` + "\n{"))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, log []byte) {
		r, err := NewReader("log", bytes.NewReader(log), Config{})
		if err != nil {
			return
		}
		var e Entry
		n := 0
		for r.Next(&e) {
			n++
			if e.At <= 0 && !strings.Contains(string(log), "0") {
				t.Errorf("an entry at %d", e.At)
			}
		}
		if n > r.Stats.Lines-r.Stats.Rejected {
			t.Errorf("%d entries of %+v", n, r.Stats)
		}
	})
}
