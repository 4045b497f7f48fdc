package nginxconf_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// A place is one location of the model.
type place struct{ modifier, pattern string }

// takes returns the location that nginx takes for a path: an exact one, else the
// longest prefix. A regular expression that matches overrides a prefix without ^~.
func takes(places []place, path string) (taken place) {
	for _, p := range places {
		switch {
		case p.modifier == "=" && p.pattern == path:
			return p
		case (p.modifier == "" || p.modifier == "^~") && strings.HasPrefix(path, p.pattern) && len(p.pattern) > len(taken.pattern):
			taken = p
		}
	}
	if taken.modifier == "^~" {
		return taken
	}
	for _, p := range places {
		if p.modifier == "~" && regexp.MustCompile(p.pattern).MatchString(path) {
			return p
		}
	}
	return taken
}

// fits reports whether a path is one of a location.
func fits(l *nginxconf.Location, path string) bool {
	switch l.Kind {
	case nginxconf.Rest:
		return true
	case nginxconf.Exact:
		return path == l.Pattern
	case nginxconf.Expr:
		return l.Re.MatchString(path)
	}
	return strings.HasPrefix(path, l.Pattern)
}

// TestOverrules checks that a path takes the matching location that no other one
// overrules, as nginx does.
func TestOverrules(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	patterns := map[string][]string{
		"":   {"/", "/a", "/a/b", "/a/bc", "/a/b/c", "/b/", "/b/a/", "/c/a"},
		"^~": {"/a/x", "/b/x/", "/d"},
		"=":  {"/", "/a", "/a/b", "/b/a", "/d/e"},
		"~":  {`\.php$`, "^/b/[a-c]", "/c"},
	}
	var paths []string
	for _, a := range []string{"", "/a", "/b", "/c", "/d", "/ab"} {
		for _, b := range []string{"/", "/a", "/b", "/bc", "/x", "/x/c", "/c/a", "/x.php", "/e"} {
			paths = append(paths, a+b, a+b+"/")
		}
	}
	modifiers := []string{"", "^~", "=", "~"}
	for n := range 300 {
		var places []place
		var conf strings.Builder
		r.Shuffle(len(modifiers), func(i, j int) { modifiers[i], modifiers[j] = modifiers[j], modifiers[i] })
		for _, modifier := range modifiers {
			for _, pattern := range patterns[modifier] {
				if r.IntN(3) == 0 {
					places = append(places, place{modifier, pattern})
					fmt.Fprintf(&conf, "location %s %q { }\n", modifier, pattern)
				}
			}
		}
		h, err := limits("server {\n" + conf.String() + "}")
		if err != nil {
			t.Fatalf("%v\n%s", err, &conf)
		}
		scopes := h.Servers[0].Scopes
		for _, path := range paths {
			var taken []string
			for _, o := range scopes {
				best := fits(o.Location, path)
				for _, other := range scopes {
					best = best && !(fits(other.Location, path) && other.Overrules(o.Location))
					if fits(o.Location, path) && fits(other.Location, path) && o.Disjoint(other.Location) {
						t.Errorf("%d: %s and %s are disjoint, and both have %s", n, o.Location, other.Location, path)
					}
					if fits(o.Location, path) && !fits(other.Location, path) && o.Within(other.Location) {
						t.Errorf("%d: %s is within %s, which does not have %s", n, o.Location, other.Location, path)
					}
				}
				if best {
					taken = append(taken, o.String())
				}
			}
			p := takes(places, path)
			want := strings.Join(strings.Fields("location "+p.modifier+" "+p.pattern), " ")
			if len(taken) != 1 || strings.TrimSpace(taken[0]) != want {
				t.Fatalf("%d: %s takes %q, want %q\n%s", n, path, taken, want, &conf)
			}
		}
	}
}

// TestLocations checks how locations are read.
func TestLocations(t *testing.T) {
	h, err := limits(`server {
		location /A { location ~ \.X$ { } location =/a/b { } }
		location ~*^/q { location /q/r { } }
		location ~ (?=x) { }
		location "^~/f" { }
	}`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	all := h.Servers[0].Scopes
	for _, o := range all {
		one := fmt.Sprint(o.Location, " ", o.Kind, " ", o.Folded(), " ", o.Re, " overrules")
		for i, other := range all {
			if o.Overrules(other.Location) {
				one += fmt.Sprint(" ", i)
			}
		}
		got = append(got, one)
	}
	want := []string{
		`location  0  <nil> overrules`,
		`location /A 1 /a <nil> overrules 0`,
		`location ~ \.X$ 4 \.x$ (?i)\.X$ overrules 0 1 4 5 6`,
		`location = /a/b 3 /a/b <nil> overrules 0 1 6`,
		`location ~ ^/q 4 ^/q (?i)^/q overrules 0 1 6`,
		`location /q/r 1 /q/r <nil> overrules 0 4 6`,
		`location ~ (?=x) 4 (?=x) <nil> overrules 0 1`,
		`location ^~ /f 2 /f <nil> overrules 0 4 6`,
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Errorf("location %d is\n%q, want\n%q", i, got[min(i, len(got)-1)], want[i])
		}
	}
}
