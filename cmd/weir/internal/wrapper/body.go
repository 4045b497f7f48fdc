package wrapper

import (
	"fmt"
	"go/format"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/directive"
)

// A body is the text of one function under construction.
type body struct {
	f       *File
	w       Wrapper
	s       *directive.Site
	sig     *types.Signature
	taken   map[string]bool // names that mean something in the function
	params  []string
	results []string // names; nil if they have none
	answers []string // names of what an error handler returns
	out     string   // the results, as the function declares them

	entry, err string
	b          strings.Builder
}

// Func returns the declaration of the function.
func (f *File) Func(w Wrapper) string {
	b := &body{f: f, w: w, s: w.Site, sig: w.Site.Func.Signature(), taken: map[string]bool{}}
	b.name()
	b.head()
	b.ask()
	b.answer()
	b.call()
	return gofmt(b.b.String())
}

// gofmt returns text in the format of gofmt.
func gofmt(text string) string {
	out, err := format.Source([]byte(text))
	if err != nil {
		return text // the compiler says what is wrong
	}
	return string(out)
}

func (b *body) linef(format string, args ...any) {
	fmt.Fprintf(&b.b, format+"\n", args...)
}

// name chooses the names in the function. Those of the original stay, unless they hide
// what the text uses.
func (b *body) name() {
	for _, n := range []string{b.w.Var, b.w.Recv.Name, root(b.w.Target), root(b.w.Owner), "nil", "int64", "string"} {
		b.taken[n] = true
	}
	b.taken[b.guard()] = true
	if len(b.links()) > 0 && b.s.Failing() {
		b.taken[b.errors()] = true
	}
	if b.s.Context.Param < 0 {
		b.taken[b.f.Import("context", "context")] = true
	}
	for _, l := range b.links() {
		if !l.Method {
			b.taken[l.Object.Name()] = true
		}
	}
	for _, list := range []*types.TypeParamList{b.sig.TypeParams(), b.sig.RecvTypeParams()} {
		for p := range list.TypeParams() {
			b.taken[p.Obj().Name()] = true
		}
	}
	named := map[string]bool{} // what the original calls its own has the right of way
	for _, t := range []*types.Tuple{b.sig.Params(), b.sig.Results()} {
		for v := range t.Variables() {
			named[v.Name()] = true
		}
	}
	free := func(name string) string {
		n := unique(name, func(n string) bool { return b.taken[n] || n != name && named[n] })
		b.taken[n] = true
		return n
	}
	invented := func(name string) string {
		n := unique(name, func(n string) bool { return b.taken[n] || named[n] })
		b.taken[n] = true
		return n
	}
	for i, v := range indexed(b.sig.Params()) {
		switch n := v.Name(); {
		case n != "" && n != "_":
			b.params = append(b.params, free(n))
		case i == b.s.Context.Param && !b.s.Context.Method:
			b.params = append(b.params, invented("ctx"))
		default:
			b.params = append(b.params, invented(fmt.Sprint("arg", i)))
		}
	}
	last := b.sig.Results().Len() - 1
	for i, v := range indexed(b.sig.Results()) {
		n := v.Name()
		switch {
		case !b.s.Failing() && (n == "" || n == "_"):
			continue // nothing needs their names
		case n != "" && n != "_":
			b.results = append(b.results, free(n))
		case i == last:
			b.results = append(b.results, invented("err"))
		case last == 1:
			b.results = append(b.results, invented("result"))
		default:
			b.results = append(b.results, invented(fmt.Sprint("result", i)))
		}
	}
	if len(b.results) != last+1 {
		b.results = nil // a blank one among named ones
	}
	b.entry = invented("entry")
	if b.s.Failing() {
		b.err = b.results[last]
	} else {
		b.err = invented("err")
	}
}

func indexed(t *types.Tuple) func(func(int, *types.Var) bool) {
	return func(yield func(int, *types.Var) bool) {
		for i := range t.Len() {
			if !yield(i, t.At(i)) {
				return
			}
		}
	}
}

func root(expr string) string {
	name, _, _ := strings.Cut(expr, ".")
	return name
}

// links returns all functions and values that may replace the result.
func (b *body) links() (all []directive.Link) {
	for _, l := range []*directive.Link{b.s.Fallback, b.s.Degrade} {
		if l != nil {
			all = append(all, *l)
		}
	}
	return append(all, b.s.OnError...)
}

func (b *body) guard() string  { return b.f.Import(guardPath, "guard") }
func (b *body) errors() string { return b.f.Import("errors", "errors") }

// head writes the comment and the first line.
func (b *body) head() {
	for line := range strings.Lines(b.w.Doc) {
		b.linef("%s", strings.TrimRight("// "+strings.TrimSuffix(line, "\n"), " "))
	}
	recv, generic := "", b.f.TypeParams(b.sig.TypeParams())
	if b.w.Recv.Type != "" {
		recv = fmt.Sprintf("(%s %s) ", b.w.Recv.Name, b.w.Recv.Type)
	}
	var taken, results []string
	for i, v := range indexed(b.sig.Params()) {
		taken = append(taken, b.f.Type(v.Type()))
		if b.sig.Variadic() && i == b.sig.Params().Len()-1 {
			taken[i] = "..." + strings.TrimPrefix(taken[i], "[]")
		}
	}
	params := grouped(b.params, taken)
	for v := range b.sig.Results().Variables() {
		results = append(results, b.f.Type(v.Type()))
	}
	out := strings.Join(results, ", ")
	if b.results != nil {
		out = grouped(b.results, results)
	}
	if len(results) > 1 || b.results != nil {
		out = "(" + out + ")"
	}
	b.out = out
	b.linef("func %s%s%s(%s) %s {", recv, b.w.Name, generic, params, out)
}

// grouped joins names and types, with one type for neighbours of the same type.
func grouped(names, kinds []string) string {
	all := slices.Clone(names)
	for i, t := range kinds {
		if i+1 == len(kinds) || kinds[i+1] != t {
			all[i] += " " + t
		}
	}
	return strings.Join(all, ", ")
}

// context returns the expression for the context of the call.
func (b *body) context() string {
	switch c := b.s.Context; {
	case c.Param < 0:
		return b.f.Import("context", "context") + ".Background()"
	case c.Method:
		return b.params[c.Param] + ".Context()"
	default:
		return b.params[c.Param]
	}
}

// ask writes the call of the guard.
func (b *body) ask() {
	key, panics := `""`, false
	if len(b.s.Key) > 0 {
		var parts []string
		for _, k := range b.s.Key {
			if k.Instance {
				parts = append(parts, b.guard()+".Default().Instance()")
				continue
			}
			part := strings.Join(append([]string{b.params[k.Param]}, k.Path...), ".")
			if k.Stringer {
				part += ".String()"
			}
			parts, panics = append(parts, part), panics || k.MayPanic
		}
		key = b.guard() + ".Key(" + strings.Join(parts, ", ") + ")"
	}
	cost := strconv.FormatInt(b.s.Cost, 10)
	if b.s.CostOf >= 0 {
		cost = b.params[b.s.CostOf]
		if t := b.sig.Params().At(b.s.CostOf).Type(); !types.Identical(t, types.Typ[types.Int64]) {
			cost = "int64(" + cost + ")"
		}
	}
	question := fmt.Sprintf("EnterN(%s, %s, %s)", b.context(), key, cost)
	switch {
	case panics:
		question = fmt.Sprintf("EnterFunc(%s, %s, func() string { return %s })", b.context(), cost, key)
	case cost == "1":
		question = fmt.Sprintf("Enter(%s, %s)", b.context(), key)
	}
	b.linef("%s, %s := %s.%s", b.entry, b.err, b.w.Var, question)
}

// answer writes the handling of a call that does not pass.
func (b *body) answer() {
	if len(b.s.OnError) > 0 {
		b.chain()
	}
	instead := b.s.Fallback
	if b.s.Degrade != nil {
		instead = b.s.Degrade
	}
	if instead != nil && b.s.Failing() {
		b.linef("if %s.Is(%s, %s.ErrDenied) {", b.errors(), b.err, b.guard())
		b.back(b.reply(*instead, b.err))
	}
	b.linef("if %s != nil {", b.err)
	switch {
	case b.s.Failing():
		b.back(strings.Join(b.results, ", "))
	case instead != nil:
		b.back(b.reply(*instead, b.err))
	case b.s.Writer >= 0:
		b.back(fmt.Sprintf("%s.Respond(%s, %s)", b.guard(), b.params[b.s.Writer], b.err))
	default:
		b.back(strconv.Quote(b.s.Directive.Message.Text))
	}
}

// back ends a block with a return of the values of an expression.
func (b *body) back(expr string) {
	if b.sig.Results().Len() > 0 {
		b.linef("return %s\n}", expr)
	} else {
		b.linef("%s\nreturn\n}", expr)
	}
}

// chain writes the error chain for a call that the store did not decide.
func (b *body) chain() {
	invent := func(name string) string { return unique(name, func(n string) bool { return b.taken[n] }) }
	undecided := invent("undecided")
	b.taken[undecided] = true
	last := b.sig.Results().Len() - 1
	for i := range last {
		n := "answer"
		if last > 1 {
			n = fmt.Sprint("answer", i)
		}
		b.answers = append(b.answers, invent(n))
	}
	b.answers = append(b.answers, b.err) // the inner hides the outer
	b.linef("var %s *%s.StoreError", undecided, b.guard())
	alive := "" // without a context there is none that ends
	if b.s.Context.Param >= 0 {
		alive = fmt.Sprintf(" && !%s.Canceled", undecided)
	}
	b.linef("if %s.As(%s, &%s)%s {", b.errors(), b.err, undecided, alive)
	b.handlers(undecided)
	b.linef("%s, %s = %s.Enter(%s)\n}", b.entry, b.err, undecided, b.context())
}

// handlers writes the calls of the error handlers for an error.
func (b *body) handlers(err string) {
	all := strings.Join(b.answers, ", ")
	for _, l := range b.s.OnError {
		b.linef("if %s := %s; !%s.Is(%s, %s.Next) {", all, b.reply(l, err), b.errors(), b.err, b.guard())
		b.linef("return %s\n}", all)
	}
}

// reply returns the expression for the result of a link.
func (b *body) reply(l directive.Link, err string) string {
	name := l.Object.Name()
	if l.Method {
		name = b.w.Owner + "." + name
	}
	if l.Value {
		if b.s.Failing() {
			return name + ", nil"
		}
		return name
	}
	if l.Generic {
		name += b.typeArgs()
	}
	var args []string
	if l.Params {
		args = append(args, b.params...)
		if l.Variadic {
			args[len(args)-1] += "..."
		}
	}
	if l.Err {
		args = append(args, err)
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// typeArgs returns the type parameters of the function, or of its receiver.
func (b *body) typeArgs() string {
	if b.s.Recv != nil {
		return TypeArgs(b.sig.RecvTypeParams())
	}
	return TypeArgs(b.sig.TypeParams())
}

// call writes the call of the function itself.
func (b *body) call() {
	if b.s.All {
		b.linef("%s = func() %s {", strings.Join(b.results, ", "), b.out) // its error is the outcome of the call
	}
	b.linef("defer %s.Done(&%s)", b.entry, b.err)
	args := strings.Join(b.params, ", ")
	if b.sig.Variadic() {
		args += "..."
	}
	call := b.w.Target + TypeArgs(b.sig.TypeParams()) + "(" + args + ")"
	if b.sig.Results().Len() > 0 {
		call = "return " + call
	}
	if !b.s.All {
		b.linef("%s\n}", call)
		return
	}
	b.linef("%s\n}()", call)
	b.linef("if %s != nil {", b.err)
	b.handlers(b.err)
	b.linef("}\nreturn %s\n}", strings.Join(b.results, ", "))
}
