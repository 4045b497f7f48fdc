package edit

import (
	"encoding/json"
	"strings"
	"testing"
)

const commented = `# head
store: memory   # the store

policies:
  # logins are dear
  - name: login   # a name
    match: { paths: [/login], methods: POST } # only these
    key: [client.ip]
    limits:
      - 5/m    # per minute
      - "100/day" # per day

  - { name: api, key: client.ip, limits: [10/s burst 20, 5/m] } # one line
  # after all
gateway: {}
`

// TestSetField checks that an edit changes its field and no other byte.
func TestSetField(t *testing.T) {
	for _, test := range []struct{ name, text, policy, field, value, old, new string }{
		{"text", commented, "login", "name", `"signin"`, "name: login ", "name: signin "},
		{"list on one line", commented, "api", "limits", `["10/s burst 20","6/m"]`, "[10/s burst 20, 5/m]", "[10/s burst 20, 6/m]"},
		{"text for a list", commented, "api", "limits", `"3/s"`, "[10/s burst 20, 5/m]", "3/s"},
		{"an element of several lines", commented, "login", "limits", `["12/m","100/day"]`, "- 5/m ", "- 12/m "},
		{"a further element", commented, "login", "limits", `["5/m","100/day","1000/month"]`, "# per day\n", "# per day\n      - 1000/month\n"},
		{"a removed element", commented, "login", "limits", `["5/m"]`, "      - \"100/day\" # per day\n", ""},
		{"list to text", strings.ReplaceAll(commented, "    # per minute", ""), "login", "limits", `"5/m"`, "\n      - 5/m\n      - \"100/day\"", " 5/m"},
		{"map", commented, "login", "match", `{"paths":["/a, b"]}`, "{ paths: [/login], methods: POST }", `{paths: ['/a, b']}`},
		{"new field", commented, "login", "mode", `"shadow"`, "# per day\n", "# per day\n    mode: shadow\n"},
		{"new field on one line", commented, "api", "percent", `10`, "5/m] }", "5/m], percent: 10 }"},
		{"text with special characters", commented, "api", "key", `"cel:a, b: c"`, "key: client.ip", `key: "cel:a, b: c"`},
		{"removed field", commented, "login", "match", `null`, "    match: { paths: [/login], methods: POST } # only these\n", ""},
		{"removed field on one line", commented, "api", "key", `null`, "key: client.ip, ", ""},
		{"last field on one line", commented, "api", "limits", `null`, ", limits: [10/s burst 20, 5/m]", ""},
		{"absent field", commented, "api", "mode", `null`, "", ""},
		{"no break at the end", "policies:\n  - name: a", "a", "key", `"client.ip"`, "name: a", "name: a\n    key: client.ip"},
		{"block map", "policies:\n- name: a\n  match:\n    paths: /x\n  key: client.ip\n", "a", "match", `{"paths":"/y"}`, "\n    paths: /x", " {paths: /y}"},
		{"characters of several bytes", "policies: [{ name: 登录, key: client.ip, limits: 1/s }]", "登录", "limits", `"2/s"`, "limits: 1/s", "limits: 2/s"},
	} {
		var value any
		if err := json.Unmarshal([]byte(test.value), &value); err != nil {
			t.Fatal(err)
		}
		got, err := setField(test.text, test.policy, test.field, value)
		if want := strings.Replace(test.text, test.old, test.new, 1); err != nil || got != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", test.name, err, got, want)
		}
	}
}

// TestSetFieldRefuses checks that the form refuses what it cannot edit exactly.
func TestSetFieldRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"anchor":        "policies: [{ name: a, limits: &l [1/s] }, { name: b, limits: *l }]",
		"block text":    "policies:\n  - name: a\n    limits: |\n      1/s\n",
		"folded text":   "policies:\n  - name: a\n    limits: 1/s\n      burst 2\n",
		"merge":         "x: &x { limits: 1/s }\npolicies:\n  - name: a\n    <<: *x\n",
		"not YAML":      "policies: [",
		"other policy":  "policies: [{ name: b, limits: 1/s }]",
		"no policies":   "store: memory",
		"empty":         "",
		"list":          "- a",
		"map of a name": "policies: { name: a }",
		"tag":           "policies: [{ name: a, limits: !!str 1/s }]",
	} {
		if got, err := setField(text, "a", "limits", "2/s"); err == nil && name != "merge" {
			t.Errorf("%s: %s, want an error", name, got)
		}
	}
	if _, err := addPolicy(commented, "api", nil); err == nil {
		t.Error("a second policy of one name was added")
	}
}

func TestAddAndDelete(t *testing.T) {
	fields := map[string]any{"limits": []any{"1/s burst 2"}, "key": "client.ip", "cost": 2}
	const lines = "- name: new\n    key: client.ip\n    limits: [1/s burst 2]\n    cost: 2\n"
	for _, test := range []struct{ name, text, old, new string }{
		{"list", commented, "# one line\n", "# one line\n  " + lines},
		{"none", "store: memory", "store: memory", "store: memory\npolicies:\n  " + lines},
		{"empty file", "", "", "policies:\n  " + lines},
		{"empty list", "policies: [] # none\nstore: memory\n", " []", " \n  " + strings.TrimSuffix(lines, "\n")},
		{"one line", "policies: [{ name: a }]\n", "{ name: a }", "{ name: a }, {cost: 2, key: client.ip, limits: [1/s burst 2], name: new}"},
		{"no indentation", "policies:\n- name: a\n", "- name: a\n", "- name: a\n" + strings.ReplaceAll(lines, "    ", "  ")},
	} {
		got, err := addPolicy(test.text, "new", fields)
		if want := strings.Replace(test.text, test.old, test.new, 1); err != nil || got != want {
			t.Errorf("add, %s: %v\n%s\nwant\n%s", test.name, err, got, want)
		}
	}
	for _, test := range []struct{ name, text, policy, old, new string }{
		{"with its comment", commented, "login", commented[strings.Index(commented, "  # logins"):strings.Index(commented, "\n  - { name: api")], ""},
		{"one line", commented, "api", "  - { name: api, key: client.ip, limits: [10/s burst 20, 5/m] } # one line\n", ""},
		{"the only one", "policies:\n  - name: a\n    key: x\nstore: memory\n", "a", "\n  - name: a\n    key: x", " []"},
		{"in a flow list", "policies: [{ name: a }, { name: b }]", "a", "{ name: a }, ", ""},
		{"last of a flow list", "policies: [{ name: a }, { name: b }]", "b", ", { name: b }", ""},
		{"the only one of a flow list", "policies: [{ name: a }]", "a", "{ name: a }", ""},
	} {
		got, err := deletePolicy(test.text, test.policy)
		if want := strings.Replace(test.text, test.old, test.new, 1); err != nil || got != want {
			t.Errorf("delete, %s: %v\n%s\nwant\n%s", test.name, err, got, want)
		}
	}
}

// FuzzSet checks that an edit of any text sets the field, or is refused.
func FuzzSet(f *testing.F) {
	f.Add(commented, "login", "limits", `["1/s"]`)
	f.Add("policies: [{name: a}]", "a", "x", `{"a": null}`)
	f.Fuzz(func(t *testing.T, text, policy, name, value string) {
		var v any
		if json.Unmarshal([]byte(value), &v) != nil {
			return
		}
		after, err := setField(text, policy, name, v)
		if err != nil || v == nil {
			return
		}
		d, err := parse(after)
		if err != nil {
			t.Fatalf("%q: %v", after, err)
		}
		if i := d.policy(policy); i < 0 && name != "name" {
			t.Fatalf("%q: no policy %q", after, policy)
		}
		_, _ = addPolicy(text, policy, map[string]any{name: v})
		_, _ = deletePolicy(text, policy)
	})
}

// TestSetFunction checks that the limits of a function are set in its rule, or in a new one, and that
// no other byte changes.
func TestSetFunction(t *testing.T) {
	const head = "# head\nstore: memory # here\n"
	for _, test := range []struct{ name, text, want string }{
		{"a rule", head + "functions:\n  rules:\n    - name: getId # of users\n      limits: 5/s # low\n", head + "functions:\n  rules:\n    - name: getId # of users\n      limits: [20/s, 100/m] # low\n"},
		{"a rule on one line", head + "functions: { rules: [{ name: a, limits: 1/s }, { name: getId, limits: 5/s, key: x }] }\n", head + "functions: { rules: [{ name: a, limits: 1/s }, { name: getId, limits: [20/s, 100/m], key: x }] }\n"},
		{"a rule without limits", head + "functions:\n  rules:\n  - name: getId\n", head + "functions:\n  rules:\n  - name: getId\n    limits: [20/s, 100/m]\n"},
		{"other rules", head + "functions:\n  rules:\n    - name: a # one\n      limits: 1/s\n", head + "functions:\n  rules:\n    - name: a # one\n      limits: 1/s\n    - {limits: [20/s, 100/m], name: getId}\n"},
		{"no rules", head + "functions:\n  key: user\n", head + "functions:\n  key: user\n  rules: [{limits: [20/s, 100/m], name: getId}]\n"},
		{"no functions", head, head + "functions:\n  rules:\n    - {limits: [20/s, 100/m], name: getId}\n"},
		{"nothing", "", "\nfunctions:\n  rules:\n    - {limits: [20/s, 100/m], name: getId}\n"},
		{"one line", "{ store: memory }", ""},
		{"an anchor", "functions:\n  rules:\n    - &a { name: getId, limits: 5/s }\n", ""},
		{"no list", "functions:\n  rules: 5\n", ""},
	} {
		got, err := setFunction(test.text, "getId", []any{"20/s", "100/m"})
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %v\n%s\nwant\n%s", test.name, err, got, test.want)
		}
	}
}
