package wrapper

import (
	"fmt"
	"go/types"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
	"github.com/floodweir/weir/guard"
)

// A Wrapper describes a function that replaces another.
type Wrapper struct {
	Site *directive.Site

	// Var is the variable of the guard: see VarName.
	Var string

	// BuiltBy, File and Line are those of the guard's Resource. A Line of 0 is omitted.
	BuiltBy guard.BuiltBy
	File    string
	Line    int

	// Name is the name of the function, and Doc its comment: lines without "//".
	Name, Doc string

	// Recv is its receiver: name, and type with type parameters. Zero for a function.
	Recv Receiver

	// Owner is the value on which a Link calls methods of the original receiver, such
	// as "s" or "l.Service".
	Owner string

	// Target is the function to call if the call passes, without type arguments:
	// "GetID", "l.Service.GetID".
	Target string
}

// A Receiver is the receiver of a method.
type Receiver struct{ Name, Type string }

// VarName returns the name of the variable that holds the guard of a site, such as
// limitServiceGetID.
func VarName(s *directive.Site) string {
	if s.Recv != nil {
		return "limit" + upper(s.Recv.Name()) + upper(s.Func.Name())
	}
	return "limit" + upper(s.Func.Name())
}

// GuardName returns the name of the guard of a site: that of the directive, or
// guard.Name.
func GuardName(s *directive.Site) string {
	if s.Name != "" {
		return s.Name
	}
	if s.Recv != nil {
		return guard.Name(s.Recv.Pkg().Path(), s.Recv.Name(), s.Func.Name())
	}
	return guard.Name(s.Func.Pkg().Path(), "", s.Func.Name())
}

func upper(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// Check reports the sites whose guards the program could not create at start. It
// requires sites without other faults.
func Check(sites []*directive.Site) (faults []directive.Fault) {
	r, err := guard.NewRegistry(guard.Config{})
	for _, s := range sites {
		if err == nil {
			_, err = r.Guard(guard.Resource{Name: GuardName(s), Limits: s.Limits, Wait: s.Directive.MaxWait, Function: s.Function()})
		}
		if err != nil {
			faults = append(faults, directive.Fault{Pos: s.Pos, Message: err.Error()})
			err = nil
		}
	}
	return faults
}

// Guard returns the declaration of the variable that holds the guard.
func (f *File) Guard(w Wrapper) string {
	g := f.Import(guardPath, "guard")
	s := w.Site
	var b strings.Builder
	fmt.Fprintf(&b, "var %s = %s.Default().MustGuard(%s.Resource{\n", w.Var, g, g)
	fmt.Fprintf(&b, "\tName: %q,\n", GuardName(s))
	if limits := s.Directive.Limits; limits != nil {
		weir := f.Import(weirPath, "weir")
		var all []string
		for _, l := range limits {
			all = append(all, fmt.Sprintf("%s.MustLimit(%q)", weir, l.String()))
		}
		fmt.Fprintf(&b, "\tLimits: []%s.Limit{%s},\n", weir, strings.Join(all, ", "))
	}
	if m := s.Directive.Message; m.Set {
		fmt.Fprintf(&b, "\tMessage: %s,\n", strconv.Quote(m.Text))
	}
	if d := s.Directive.MaxWait; d > 0 {
		fmt.Fprintf(&b, "\tWait: %s,\n", f.duration(d))
	}
	if len(s.OnError) > 0 {
		b.WriteString("\tHandlesStoreError: true,\n")
	}
	fmt.Fprintf(&b, "\tFunction: %q,\n", s.Function())
	if w.File != "" {
		fmt.Fprintf(&b, "\tFile: %q,\n", path.Clean(w.File))
	}
	if w.Line > 0 {
		fmt.Fprintf(&b, "\tLine: %d,\n", w.Line)
	}
	switch w.BuiltBy {
	case guard.Generated:
		fmt.Fprintf(&b, "\tBuiltBy: %s.Generated,\n", g)
	case guard.Woven:
		fmt.Fprintf(&b, "\tBuiltBy: %s.Woven,\n", g)
	}
	b.WriteString("})\n")
	return gofmt(b.String())
}

// duration returns d as Go source in a readable form.
func (f *File) duration(d time.Duration) string {
	t := f.Import("time", "time")
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}} {
		if d%u.unit == 0 {
			if d == u.unit {
				return t + "." + u.name
			}
			return fmt.Sprintf("%d * %s.%s", d/u.unit, t, u.name)
		}
	}
	return fmt.Sprintf("%d * %s.Nanosecond", d, t)
}

// TypeParams returns the type parameters of a declaration, "[K comparable, V any]", or
// "".
func (f *File) TypeParams(params *types.TypeParamList) string {
	var all []string
	for p := range params.TypeParams() {
		all = append(all, p.Obj().Name()+" "+f.Type(p.Constraint()))
	}
	return brackets(all)
}

// TypeArgs returns the names of type parameters at their use, "[K, V]", or "".
func TypeArgs(params *types.TypeParamList) string {
	var all []string
	for p := range params.TypeParams() {
		all = append(all, p.Obj().Name())
	}
	return brackets(all)
}

func brackets(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "[" + strings.Join(all, ", ") + "]"
}
