package orchestrion

import (
	"fmt"
	"net/url"
	"path"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
)

// Guard makes the guard of a function in guard.Default, or returns the one that was made
// for it. The caller is in the package of the function, which is of receiver if that is not
// empty: "*Service". The fields are those of the directive, as in "limit=10" or "limit:10".
// An error names the function and wraps weir.ErrInvalid.
func Guard(receiver, function string, fields ...string) (*guard.Guard, error) {
	return newGuard(receiver, function, fields)
}

// MustGuard is Guard for woven code. It panics on an error, which ends the program at its
// start.
func MustGuard(receiver, function string, fields ...string) *guard.Guard {
	g, err := newGuard(receiver, function, fields)
	if err != nil {
		panic(err)
	}
	return g
}

// newGuard is Guard for the caller of its caller.
func newGuard(receiver, function string, fields []string) (*guard.Guard, error) {
	pkg, file, line := caller(2)
	p := guard.Resource{Function: pkg + "." + function, File: file, Line: line, BuiltBy: guard.Woven}
	switch {
	case strings.HasPrefix(receiver, "*"):
		p.Function = pkg + ".(" + receiver + ")." + function
	case receiver != "":
		p.Function = pkg + "." + receiver + "." + function
	}
	if err := read(&p, fields); err != nil {
		return nil, fmt.Errorf("orchestrion: weir:limit on %s: %w: %w", p.Function, weir.ErrInvalid, err)
	}
	if p.Name == "" {
		p.Name = guard.Name(pkg, receiver, function)
	}
	g, err := guard.Default().Guard(p)
	if err != nil {
		return nil, fmt.Errorf("orchestrion: weir:limit on %s: %w", p.Function, err)
	}
	return g, nil
}

// caller is the package of a function skip frames above the caller, and where it calls. The
// place is empty in woven code, which stands in no file.
func caller(skip int) (pkg, file string, line int) {
	var pcs [1]uintptr
	if runtime.Callers(skip+2, pcs[:]) == 0 {
		return "", "", 0
	}
	f, _ := runtime.CallersFrames(pcs[:]).Next()
	dir, last := path.Split(f.Function)
	last, _, _ = strings.Cut(last, ".")
	pkg = dir + last
	// Dots in the last element are escaped.
	if plain, err := url.PathUnescape(pkg); err == nil {
		pkg = plain
	}
	// That of a program is called main, whatever its import path is.
	if b, ok := debug.ReadBuildInfo(); ok && pkg == "main" && b.Path != "" {
		pkg = b.Path
	}
	if strings.HasSuffix(f.File, ".go") {
		return pkg, path.Base(f.File), f.Line
	}
	return pkg, "", 0
}
