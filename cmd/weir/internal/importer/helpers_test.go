package importer_test

import (
	"errors"
	"flag"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// accepted parses the file of a result, as weir check does.
func accepted(t *testing.T, r *importer.Result) *policy.Set {
	t.Helper()
	f, err := weirfile.Parse("imported.yaml", []byte(r.Text))
	if err != nil {
		t.Fatalf("the file is refused: %v\n%s", err, r.Text)
	}
	if n := len(f.Policies.Policies()); n != r.Policies {
		t.Errorf("the file has %d policies, the result says %d", n, r.Policies)
	}
	for _, i := range r.Listed {
		if i.What == "" || i.Why == "" || strings.ContainsAny(i.String(), "\n\r\x00") {
			t.Errorf("listed: %q", i)
		}
	}
	if (len(r.Listed) > 0) != strings.Contains(r.Text, "# What could not be expressed:") {
		t.Errorf("%d are listed, and the file says:\n%s", len(r.Listed), r.Text)
	}
	return f.Policies
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the difference. Got:\n%s", name, got)
	}
}

// files returns the Files of a map from name to content.
func files(texts map[string]string) importer.Files {
	return importer.Files{
		Read: func(name string) ([]byte, error) {
			text, ok := texts[name]
			if !ok {
				return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("no such file")}
			}
			return []byte(text), nil
		},
		Glob: func(pattern string) (names []string, err error) {
			for name := range texts {
				ok, err := filepath.Match(pattern, name)
				if err != nil {
					return nil, err
				}
				if ok {
					names = append(names, name)
				}
			}
			return names, nil
		},
	}
}

// A request is the input of policies.
type request struct {
	method, host, path string
	headers            map[string]string // by canonical name
	ip                 string
}

func (r request) Method() string         { return r.method }
func (r request) Host() string           { return r.host }
func (r request) Path() string           { return r.path }
func (r request) Query(string) []string  { return nil }
func (r request) Cookie(string) []string { return nil }
func (r request) Header(name string) []string {
	if v, ok := r.headers[name]; ok {
		return []string{v}
	}
	return nil
}
func (r request) ClientIP() netip.Addr {
	a, _ := netip.ParseAddr(r.ip)
	return a
}

// limitsOf returns the limits that apply to a request, each as "policy: limit", with the limit
// "blocked" for a policy that blocks it.
func limitsOf(set *policy.Set, r request) (all []string) {
	var q policy.Matches
	set.Match(&q, r)
	for _, a := range q.Charges {
		if a.Blocked {
			all = append(all, a.Policy.Name()+": blocked")
		}
		for _, one := range q.Requests[a.From:a.To] {
			all = append(all, a.Policy.Name()+": "+one.Limit.String())
		}
	}
	return all
}
