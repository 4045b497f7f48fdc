package operate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

// TestActFaults checks that an invalid action gets one problem document with the field, the value
// and the expected form, and changes nothing.
func TestActFaults(t *testing.T) {
	s := serve(t)
	const key = `"policy":"login","key":["203.0.113.9"]`
	const why = key + `,"reason":"ticket 812"`
	for _, tc := range []struct {
		name, action, body     string
		field, value, expected string // parts of value and expected
		status                 int    // 400 if zero
	}{
		{name: "action", action: "ban", body: `{` + why + `}`, status: 404, field: "action", value: "ban", expected: "credit, reset, raise, freeze, block or lift"},
		{name: "near policy", action: "freeze", body: `{"policy":"logim","key":["203.0.113.9"],"reason":"x"}`, field: "policy", value: "logim", expected: "such as login"},
		{name: "unknown policy", action: "freeze", body: `{"policy":"zzzzzzzz","key":["203.0.113.9"],"reason":"x"}`, field: "policy", value: "zzzzzzzz", expected: "login, tenants"},
		{name: "no policy", action: "freeze", body: `{"key":["203.0.113.9"],"reason":"x"}`, field: "policy", expected: "the name of a policy"},
		{name: "too many parts", action: "freeze", body: `{"policy":"login","key":["203.0.113.9","a"],"reason":"x"}`, field: "key", value: "2", expected: "1"},
		{name: "too few parts", action: "freeze", body: `{"policy":"tenants","key":["a"],"reason":"x"}`, field: "key", value: "1", expected: "2"},
		{name: "no key", action: "freeze", body: `{"policy":"login","reason":"x"}`, field: "key", expected: "or id"},
		{name: "key and id", action: "freeze", body: `{` + why + `,"id":"abc"}`, field: "id", value: "abc", expected: "not both"},
		{name: "unknown id", action: "freeze", body: `{"policy":"login","id":"abc","reason":"x"}`, field: "id", value: "abc", expected: "the id of an adjusted key"},
		{name: "pattern", action: "freeze", body: `{"policy":"login","key":["203.*"],"reason":"x"}`, field: "key[0]", value: "203.*", expected: "without *"},
		{name: "not an address", action: "freeze", body: `{"policy":"login","key":["localhost"],"reason":"x"}`, field: "key[0]", value: "localhost", expected: "address"},
		{name: "no reason", action: "freeze", body: `{` + key + `}`, field: "reason", expected: "1 to 1024 bytes"},
		{name: "blank reason", action: "freeze", body: `{` + key + `,"reason":" \n"}`, field: "reason", expected: "1 to 1024 bytes"},
		{name: "long reason", action: "freeze", body: `{` + key + `,"reason":"` + strings.Repeat("x", 1025) + `"}`, field: "reason", value: "1025 bytes", expected: "1 to 1024 bytes"},
		{name: "past", action: "block", body: `{` + why + `,"until":"2020-01-01T00:00:00Z"}`, field: "until", value: "2020-01-01T00:00:00Z", expected: "later than now"},
		{name: "too far", action: "block", body: `{` + why + `,"until":"2999-01-01T00:00:00Z"}`, field: "until", value: "2999-01-01T00:00:00Z", expected: "within 366 days"},
		{name: "not a time", action: "block", body: `{` + why + `,"until":"tomorrow"}`, field: "until", value: "tomorrow", expected: "a time such as"},
		{name: "until and for", action: "block", body: `{` + why + `,"until":"2999-01-01T00:00:00Z","for":"1h"}`, field: "until", value: "2999-01-01T00:00:00Z", expected: "one of them"},
		{name: "no end", action: "block", body: `{` + why + `}`, field: "until", expected: "until or for"},
		{name: "long for", action: "block", body: `{` + why + `,"for":"8785h"}`, field: "for", value: "8785h", expected: "at most 8784h"},
		{name: "negative for", action: "block", body: `{` + why + `,"for":"-1h"}`, field: "for", value: "-1h", expected: "a duration such as"},
		{name: "freeze with an end", action: "freeze", body: `{` + why + `,"for":"1h"}`, field: "for", value: "1h", expected: "only raise and block"},
		{name: "no limits", action: "raise", body: `{` + why + `,"for":"1h"}`, field: "limits", value: "0 limits", expected: "1 to 16"},
		{name: "invalid limit", action: "raise", body: `{` + why + `,"for":"1h","limits":["5/m","5/lightyear"]}`, field: "limits[1]", value: "5/lightyear", expected: "a limit such as"},
		{name: "too many limits", action: "raise", body: `{` + why + `,"for":"1h","limits":["1/s"` + strings.Repeat(`,"1/s"`, 16) + `]}`, field: "limits", value: "17 limits", expected: "1 to 16"},
		{name: "limits of a block", action: "block", body: `{` + why + `,"for":"1h","limits":["5/m"]}`, field: "limits", value: "5/m", expected: "only raise"},
		{name: "no tokens", action: "credit", body: `{` + why + `}`, field: "tokens", expected: "such as 10"},
		{name: "zero tokens", action: "credit", body: `{` + why + `,"tokens":0}`, field: "tokens", value: "0", expected: "1 to 9007199254740992"},
		{name: "negative tokens", action: "credit", body: `{` + why + `,"tokens":-1}`, field: "tokens", value: "-1", expected: "1 to"},
		{name: "too many tokens", action: "credit", body: `{` + why + `,"tokens":9007199254740993}`, field: "tokens", value: "9007199254740993", expected: "1 to"},
		{name: "fraction of a token", action: "credit", body: `{` + why + `,"tokens":1.5}`, field: "tokens", value: "number", expected: "whole number"},
		{name: "tokens of a reset", action: "reset", body: `{` + why + `,"tokens":1}`, field: "tokens", value: "1", expected: "only credit"},
		{name: "unknown field", action: "freeze", body: `{` + why + `,"forever":true}`, field: "forever", value: "forever", expected: "policy, key, id, reason, tokens, limits, until or for"},
		{name: "wrong type", action: "freeze", body: `{"policy":"login","key":"203.0.113.9","reason":"x"}`, field: "key", value: "string", expected: "array of strings"},
		{name: "no JSON", action: "freeze", body: `key=1`, field: "body", value: "key=1", expected: "a JSON object"},
		{name: "two objects", action: "freeze", body: `{` + why + `} {}`, field: "body", value: "{}", expected: "nothing after"},
		{name: "empty", action: "freeze", field: "body", expected: "a JSON object"},
		{name: "large body", action: "freeze", body: `{` + key + `,"reason":"` + strings.Repeat("x", 64<<10) + `"}`, status: 413, field: "body", value: "more than 65536 bytes", expected: "at most 65536 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := max(tc.status, 400)
			code, got := s.send(access.Operate, "POST", "/v1/key/"+tc.action, tc.body)
			var p struct {
				Status                 int
				Field, Value, Expected string
			}
			d := json.NewDecoder(strings.NewReader(got))
			if err := d.Decode(&p); err != nil || d.More() {
				t.Fatalf("%d %s: want one problem document", code, got)
			}
			if code != want || p.Status != want || p.Field != tc.field || !strings.Contains(p.Value, tc.value) || tc.value == "" && p.Value != "nothing" || !strings.Contains(p.Expected, tc.expected) {
				t.Errorf("%d %s, want %d with the field %s, the value %q and %q", code, got, want, tc.field, tc.value, tc.expected)
			}
		})
	}
	for _, path := range []string{"/v1/adjustments", "/v1/audit"} {
		if _, got := s.send(access.Operate, "GET", path, ""); !strings.HasSuffix(strings.TrimSpace(got), ":[]}") {
			t.Errorf("afterwards %s = %s, want none", path, got)
		}
	}
}
