package generate

import (
	"go/ast"
	"go/token"
	"testing"
)

// TestParse checks that only functions of the standard library lose their bodies.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		goroot, name string
		body         bool
	}{
		{"/go", "/go/src/net/http/server.go", false},
		{"/go", "/go/src-of-mine/main.go", true},
		{"/go", "/home/mei/shop/main.go", true},
		{"", "/src/shop/main.go", true},
	} {
		file, err := parseFor(c.goroot)(token.NewFileSet(), c.name, []byte("package p\n\nfunc f() { g() }\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Decls[0].(*ast.FuncDecl).Body != nil; got != c.body {
			t.Errorf("GOROOT %q, %s: has a body = %v, want %v", c.goroot, c.name, got, c.body)
		}
	}
}
