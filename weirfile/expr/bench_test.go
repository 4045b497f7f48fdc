package expr_test

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile/expr"
)

// BenchmarkEval compares conditions with the list of paths that is equal to the first
// of them.
func BenchmarkEval(b *testing.B) {
	r := &plain{request: sample()}
	b.Run("list", func(b *testing.B) {
		prefixes := []string{"/admin", "/api"}
		b.ReportAllocs()
		for b.Loop() {
			path, found := r.Path(), false
			for _, p := range prefixes {
				found = found || path == p || strings.HasPrefix(path, p) && path[len(p)] == '/'
			}
			if !found {
				b.Fatal("want a path that fits")
			}
		}
	})
	for name, text := range map[string]string{
		"path":    `request.path.startsWith("/api/")`,
		"method":  `request.method == "POST"`,
		"header":  `request.headers["x-plan"] == "gold"`,
		"three":   `request.method == "POST" && request.path.startsWith("/api/") && request.headers["x-plan"] in ["gold", "free"]`,
		"address": `cidr("10.0.0.0/8").containsIP(client.ip)`,
		"pattern": `request.path.matches("^/api/users/[0-9]+$")`,
	} {
		b.Run(name, func(b *testing.B) {
			c, err := expr.Condition(text)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := c.Eval(r); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		c, err := expr.Condition(`request.path.startsWith("/api/")`)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if ok, err := c.Eval(r); !ok || err != nil {
					b.Error(ok, err)
				}
			}
		})
	})
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := expr.Condition(`request.method == "POST" && request.path.startsWith("/api/")`); err != nil {
			b.Fatal(err)
		}
	}
}

// plain is a request that records nothing.
type plain struct{ *request }

func (p *plain) Method() string              { return p.method }
func (p *plain) Path() string                { return p.path }
func (p *plain) Header(name string) []string { return p.headers[name] }
