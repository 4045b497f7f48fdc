package importer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEnvoyAgrees checks that the imported policies and package ratelimit charge the
// same limits.
func TestEnvoyAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	values := []string{"", "red", "reddish", "blue", "r*", "re*", "*e", "*"}
	asked := []string{"red", "reddish", "blue", "green", "rose", "x"}
	limited, blocked := 0, 0
	for n := range 200 {
		var conf strings.Builder
		conf.WriteString("domain: d\ndescriptors:\n")
		level := func(indent, key string, deeper bool) {
			for i, v := range values {
				if r.IntN(2) == 0 {
					continue
				}
				fmt.Fprintf(&conf, "%s- key: %s\n", indent, key)
				if v != "" {
					fmt.Fprintf(&conf, "%s  value: %q\n", indent, v)
				}
				if r.IntN(4) == 0 {
					fmt.Fprintf(&conf, "%s  shadow_mode: true\n", indent)
				}
				switch r.IntN(7) {
				case 0: // none
				case 2:
					fmt.Fprintf(&conf, "%s  rate_limit: { unit: minute, requests_per_unit: 0 }\n", indent)
				case 1:
					fmt.Fprintf(&conf, "%s  rate_limit: { unlimited: true }\n", indent)
				default:
					fmt.Fprintf(&conf, "%s  rate_limit: { unit: minute, requests_per_unit: %d }\n", indent, 10+i+10*len(indent))
				}
				if deeper && r.IntN(3) == 0 {
					fmt.Fprintf(&conf, "%s  descriptors:\n", indent)
					for j, w := range values[:4] {
						if r.IntN(2) == 0 || j == 0 {
							fmt.Fprintf(&conf, "%s    - { key: shape, value: %q, rate_limit: { unit: hour, requests_per_unit: %d } }\n", indent, w, 100+10*i+j)
						}
					}
				}
			}
		}
		level("  ", "colour", true)
		path := write(t, "d.yaml", strings.ReplaceAll(conf.String(), `value: "", `, ""))
		c, err := ratelimit.Load(path)
		if err != nil {
			continue // such as an empty list
		}
		result, err := importer.Envoy(path)
		if err != nil {
			t.Fatal(err)
		}
		set := accepted(t, result)
		for _, colour := range asked {
			for _, shape := range append(asked, "") {
				want := ""
				entries := []ratelimit.Entry{{Key: "colour", Value: colour}}
				headers := map[string]string{"Colour": colour}
				if shape != "" {
					entries = append(entries, ratelimit.Entry{Key: "shape", Value: shape})
					headers["Shape"] = shape
				}
				if m, ok := c.Domain("d").Match(entries); ok && m.Limit != nil && !m.Limit.Unlimited {
					if want = m.Limit.Limit.String(); m.Limit.Blocks() {
						want = "blocked"
						blocked++
					}
				}
				// Limits of shorter descriptors apply too. They have another unit, and are not
				// compared.
				var got []string
				for _, one := range limitsOf(set, request{method: "GET", host: "x", path: "/", headers: headers}) {
					_, limit, _ := strings.Cut(one, ": ")
					if strings.Contains(limit, "/h ") == (shape != "") {
						got = append(got, limit)
					}
				}
				if want != "" {
					limited++
				}
				if strings.Join(got, " and ") != want {
					t.Fatalf("%d: colour %q, shape %q: %q, want %q\n%s\n%s", n, colour, shape, got, want, &conf, result.Text)
				}
			}
		}
	}
	t.Logf("%d requests under a limit, %d of them blocked", limited, blocked)
	if limited < 1000 || blocked < 100 {
		t.Errorf("%d requests under a limit, %d blocked: the test has lost its point", limited, blocked)
	}
}

func TestEnvoyAttributes(t *testing.T) {
	for _, test := range []struct{ descriptor, want string }{
		{"{ key: remote_address }", "key: [client.ip/128]"},
		{"{ key: remote_address, value: 2001:DB8::1 }", `where: 'client.ip == "2001:db8::1"'`},
		{"{ key: masked_remote_address }", "key: [client.ip]"},
		{"{ key: masked_remote_address, value: 10.1.2.3/8 }", `where: 'cidr("10.0.0.0/8").containsIP(client.ip)'`},
		{"{ key: ':method' }", "key: [method]"},
		{"{ key: method, value: PUT }", `where: 'request.method == "PUT"'`},
		{"{ key: ':path', value: /A/b }", `where: 'request.path == "/a/b"'`},
		{"{ key: ':authority', value: Shop.Example }", `where: 'request.host == "shop.example"'`},
		{"{ key: host }", `key: ["cel:request.host"]`},
		{"{ key: user_id }", `key: ["header:User-Id"]`},
		{"{ key: user_id, value: 'it''s \"\\7\"' }", `where: 'request.headers["user-id"] == "it''s \"\\7\""'`},
		{"{ key: x, value: 'a.*', share_threshold: true }", `key: ["const:all"]`},
		{"{ key: x, value: 'a.*' }", `where: 'request.headers["x"].matches("^a\\..*$")'`},
		{"{ key: x, value: 'a.*', rate_limit: { unit: second, requests_per_unit: 0 } }", "    block: true"},
		{"{ key: x, value: a, shadow_mode: true, rate_limit: { unit: day, requests_per_unit: 0 } }", "    block: true\n    mode: shadow"},
		{"{ key: x, value: a, rate_limit: { unlimited: true } }\n  - { key: x }", "- { key: [a], limits: unlimited }"},
		{"{ key: x, value: a, rate_limit: { unit: day, requests_per_unit: 0 } }\n  - { key: x }", "- { key: [a], limits: 0 }"},
	} {
		limit := ", rate_limit: { unit: second, requests_per_unit: 1 } }"
		if strings.HasSuffix(test.descriptor, "} }") {
			limit = "}"
		}
		r, err := importer.Envoy(write(t, "d.yaml", "domain: d\ndescriptors:\n  - "+strings.TrimSuffix(test.descriptor, "}")+limit+"\n"))
		if err != nil {
			t.Errorf("%s: %v", test.descriptor, err)
			continue
		}
		if accepted(t, r); !strings.Contains(r.Text, test.want) || len(r.Listed) > 0 {
			t.Errorf("%s: want %s, listed %v, got\n%s", test.descriptor, test.want, r.Listed, r.Text)
		}
	}
}

func TestEnvoyListed(t *testing.T) {
	for _, test := range []struct{ descriptor, want string }{
		{"{ key: path, rate_limit: { unit: second, requests_per_unit: 1 } }", "d-path: 1/s fixed_window anchor epoch: a client can spell it"},
		{"{ key: path, value: '/a/*', rate_limit: { unit: second, requests_per_unit: 1 } }", "d-path-/a/*: 1/s fixed_window anchor epoch: each matching path"},
		{"{ key: remote_address, value: laptop, rate_limit: { unit: second, requests_per_unit: 1 } }", `d-remote_address-laptop: 1/s fixed_window anchor epoch: "laptop" is not a valid value of remote_address`},
		{"{ key: remote_address, value: '10.*', rate_limit: { unit: second, requests_per_unit: 1 } }", "d-remote_address-10.*: 1/s fixed_window anchor epoch: remote_address cannot be compared with a pattern"},
		{"{ key: 'a*', rate_limit: { unit: second, requests_per_unit: 1 } }", `d-a*: 1/s fixed_window anchor epoch: no attribute of a request has the name "a*"`},
		{"{ key: x, quota_mode: true, rate_limit: { unit: second, requests_per_unit: 1 } }", "d-x: 1/s fixed_window anchor epoch: quota_mode denies only if"},
		{"{ key: x, rate_limit: { unit: second, requests_per_unit: 1, replaces: [{ name: y }] } }", "replaces y of d-x: 1/s fixed_window anchor epoch: a request that matches both limits"},
	} {
		path := write(t, "d.yaml", "domain: d\ndescriptors:\n  - "+test.descriptor+"\n")
		r, err := importer.Envoy(path)
		if err != nil {
			t.Errorf("%s: %v", test.descriptor, err)
			continue
		}
		accepted(t, r)
		if want := path + ":3: " + test.want; len(r.Listed) != 1 || !strings.HasPrefix(r.Listed[0].String(), want) {
			t.Errorf("%s: listed %v, want %s", test.descriptor, r.Listed, want)
		}
	}
}

func TestEnvoyBroken(t *testing.T) {
	_, err := importer.Envoy(write(t, "d.yaml", "domain: d\ndescriptors:\n  - key: x\n    rate_limits: {}\n"))
	var errs ratelimit.Errors
	if !errors.As(err, &errs) || !strings.Contains(err.Error(), "d.yaml:4:") {
		t.Errorf("an unknown field: %v, want an error with its line", err)
	}
	if _, err := importer.Envoy("testdata/nowhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestEnvoyAnyAddress checks that the value "*" of an address is each address.
func TestEnvoyAnyAddress(t *testing.T) {
	for text, want := range map[string]string{
		`- { key: remote_address, value: "*", rate_limit: { unit: second, requests_per_unit: 50 } }`:     `key: [client.ip/128]`,
		`- { key: remote_address, value: "192.*", rate_limit: { unit: second, requests_per_unit: 50 } }`: "",
	} {
		r, err := importer.Envoy(write(t, "a.yaml", "domain: d\ndescriptors:\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, r)
		if !strings.Contains(r.Text, want) || (len(r.Listed) == 0) != (want != "") {
			t.Errorf("%s: listed %v, want %s, got\n%s", text, r.Listed, want, r.Text)
		}
	}
}
