package wrapper_test

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
	"github.com/floodweir/weir/cmd/weir/internal/wrapper"
	"github.com/floodweir/weir/guard"
)

// sites returns the sites of a source.
func sites(source string) (*types.Package, []*directive.Site, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "shop.go", source, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	info := &types.Info{Defs: map[*ast.Ident]types.Object{}}
	if build.Default.GOROOT == "" { // built with -trimpath
		goroot, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return nil, nil, err
		}
		build.Default.GOROOT = strings.TrimSpace(string(goroot))
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := conf.Check("example.com/shop", fset, []*ast.File{f}, info)
	if err != nil {
		return nil, nil, err
	}
	found, faults := directive.Find(fset, []*ast.File{f}, pkg, info)
	if len(faults) > 0 {
		return nil, nil, fmt.Errorf("%s", faults[0].Message)
	}
	return pkg, found, nil
}

func Example() {
	pkg, found, err := sites(`package shop

import "context"

//weir:limit limit=10 period=10 key=userID
func GetID(ctx context.Context, userID string) (int, error) { return 0, nil }
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	f := wrapper.NewFile(pkg)
	w := wrapper.Wrapper{Site: found[0], Var: wrapper.VarName(found[0]), Name: "LimitedGetID", Target: "GetID", BuiltBy: guard.Generated}
	text := f.Guard(w) + "\n" + f.Func(w)
	fmt.Print(f.Imports() + text)
	// Output:
	// import (
	// 	"context"
	//
	// 	"github.com/floodweir/weir"
	// 	"github.com/floodweir/weir/guard"
	// )
	//
	// var limitGetID = guard.Default().MustGuard(guard.Resource{
	// 	Name:     "example.com.shop.GetID",
	// 	Limits:   []weir.Limit{weir.MustLimit("10/10s fixed_window")},
	// 	Function: "example.com/shop.GetID",
	// 	BuiltBy:  guard.Generated,
	// })
	//
	// func LimitedGetID(ctx context.Context, userID string) (result int, err error) {
	// 	entry, err := limitGetID.Enter(ctx, guard.Key(userID))
	// 	if err != nil {
	// 		return result, err
	// 	}
	// 	defer entry.Done(&err)
	// 	return GetID(ctx, userID)
	// }
}

// TestDefault holds the limit of a directive that names none against that of a guard that
// names none: the code leaves it out.
func TestDefault(t *testing.T) {
	_, found, err := sites("package shop\n\n//weir:limit\nfunc F() error { return nil }\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := found[0].Limits[0], guard.DefaultLimit(); !got.Equal(want) {
		t.Errorf("limit %v, want %v", got, want)
	}
	if got := wrapper.Check(found); len(got) > 0 {
		t.Errorf("Check = %v, want no faults", got)
	}
}

func TestCheck(t *testing.T) {
	_, found, err := sites("package shop\n\n//weir:limit name=a\nfunc F() error { return nil }\n//weir:limit name=b\nfunc G() error { return nil }\n")
	if err != nil {
		t.Fatal(err)
	}
	found[1].Name = "system" // which no directive can have
	got := wrapper.Check(found)
	if len(got) != 1 || got[0].Pos != found[1].Pos || !strings.Contains(got[0].Message, `name "system"`) {
		t.Errorf("Check = %v, want a fault about system", got)
	}
}

// TestWaits reads durations back as a person writes them.
func TestWaits(t *testing.T) {
	for wait, want := range map[string]string{
		"1s": "time.Second", "1m": "time.Minute", "1500ms": "1500 * time.Millisecond", "2us": "2 * time.Microsecond", "7ns": "7 * time.Nanosecond",
	} {
		pkg, found, err := sites("package shop\n\n//weir:limit wait=" + wait + "\nfunc F() error { return nil }\n")
		if err != nil {
			t.Fatal(err)
		}
		text := wrapper.NewFile(pkg).Guard(wrapper.Wrapper{Site: found[0], Var: "v", Line: 3, File: "shop.go", BuiltBy: guard.Woven})
		for _, line := range []string{"Wait:     " + want + ",", "Line:     3,", "BuiltBy:  guard.Woven,"} {
			if !strings.Contains(text, line) {
				t.Errorf("wait=%s gives\n%s, want %s in it", wait, text, line)
			}
		}
	}
}

// TestHidden has type parameters with the names of what the code imports.
func TestHidden(t *testing.T) {
	pkg, found, err := sites("package shop\n\ntype List[errors any] []errors\n\n" +
		"//weir:limit fallback=answer\nfunc (List[weir]) Len() (int, error) { return 0, nil }\n\nconst answer = 1\n\n" +
		"//weir:limit limit=1 key=k\nfunc F[guard any](k string) error { return nil }\n")
	if err != nil {
		t.Fatal(err)
	}
	f := wrapper.NewFile(pkg)
	text := ""
	for _, s := range found {
		w := wrapper.Wrapper{Site: s, Var: wrapper.VarName(s), Name: "g", Target: "f", Recv: wrapper.Receiver{Name: "l", Type: "List[weir]"}}
		text += f.Guard(w) + f.Func(w)
	}
	for _, want := range []string{"guard2.Key(k)", "errors2.Is(err, guard2.ErrDenied)", "weir2.MustLimit("} {
		if !strings.Contains(text, want) {
			t.Errorf("code is\n%s, want %s in it", text, want)
		}
	}
}
