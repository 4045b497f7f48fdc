package nginxconf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// written is directives as they can stand in a file, each word in quotes.
func written(block []*nginxconf.Directive) string {
	var s strings.Builder
	quotes := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, d := range block {
		for _, word := range append([]string{d.Name}, d.Args...) {
			s.WriteString(` "` + quotes.Replace(word) + `"`)
		}
		if d.IsBlock() {
			s.WriteString(" {\n" + written(d.Block) + "}\n")
		} else {
			s.WriteString(";\n")
		}
	}
	return s.String()
}

// FuzzRead checks that any text is refused, or is read as directives that have the same
// meaning when they are written and read again. Limits refuses those or reads their
// limits.
func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"shop/*.conf", "shop/*/*"} {
		names, err := filepath.Glob("../importer/testdata/nginx/" + pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(data))
		}
	}
	f.Add("http {\n" + zones + "limit_req zone=a; limit_conn c 5; server { server_name ~x .y z.*; location ~* \"x{1}\" { limit_req zone=b burst=3 delay=2; } } server { } }")
	f.Add("a 'b\\'\\x' \\; ${c}d; x_by_lua_block { '}' [=[ } ]=] -- }\n } include x y")
	f.Fuzz(func(t *testing.T, text string) {
		root, err := read(text)
		if err != nil {
			return
		}
		again, err := read(written(root))
		if err != nil || written(again) != written(root) {
			t.Fatalf("it means\n%s, written and read\n%s, %v", written(root), written(again), err)
		}
		h, err := nginxconf.Limits(root)
		if err != nil {
			return
		}
		for _, s := range h.Servers {
			h.IsFirst(s)
			for _, name := range s.Names {
				h.Taken(s, name)
			}
			for _, o := range s.Scopes {
				for _, other := range s.Scopes {
					if o.Overrules(other.Location) && other.Overrules(o.Location) {
						t.Fatalf("%s and %s overrule each other", o.Location, other.Location)
					}
				}
			}
		}
	})
}
