package directive

import (
	"fmt"
	"go/types"
)

// links resolves the functions and values that replace the result.
func (f *finder) links(s *Site) {
	d := s.Directive
	if d.Fallback.Set {
		s.Fallback = f.link(s, d.Fallback, "fallback", plain)
	}
	if d.Degrade.Set {
		s.Degrade = f.link(s, d.Degrade, "degrade", withError)
	}
	if !s.Failing() {
		replaced := d.Fallback.Set || d.Degrade.Set
		switch {
		case replaced || s.Writer >= 0 || s.Text && d.Message.Set:
		case s.Text:
			f.faultf(s.Pos, "%s: has no error as its last result to report a denied call: want one, or a fallback, a degrade or a message", s.what())
		default:
			f.faultf(s.Pos, "%s: has no error as its last result to report a denied call: want one, or a fallback or degrade", s.what())
		}
		if d.OnError.Set {
			f.faultf(s.at(d.OnError), "onerror %q: want a function whose last result is error; %s has none", d.OnError.Text, s.Func.Name())
			return
		}
		if d.Message.Set && replaced {
			f.faultf(s.at(d.Message), "message %q: want it without fallback and degrade, which replace it; or a function whose last result is error", d.Message.Text)
		}
	}
	s.All = d.Errors.Text == "all"
	for _, v := range d.Links {
		if l := f.link(s, v, "onerror", chained); l != nil {
			s.OnError = append(s.OnError, *l)
		}
	}
}

// A manner is the kind of function or value that a field accepts.
type manner int

const (
	plain     manner = iota // the parameters or none; or a value
	withError               // the parameters and an error
	chained                 // as withError
)

// link resolves a name, or reports a fault and returns nil.
func (f *finder) link(s *Site, v Value, field string, m manner) *Link {
	obj, method := f.lookup(s, v.Text)
	if obj == nil {
		who := "package " + f.pkg.Name() + " has no function"
		if s.Recv != nil {
			who = fmt.Sprintf("%s has no method, and package %s no function", s.Recv.Name(), f.pkg.Name())
		}
		f.faultf(s.at(v), "%s %q: %s of that name: want %s", field, v.Text, who, f.wanted(s, m))
		return nil
	}
	if fn, ok := obj.(*types.Func); ok && (fn.Origin() == s.Func.Origin()) {
		f.faultf(s.at(v), "%s %q: is the function itself: want another", field, v.Text)
		return nil
	}
	l := &Link{Object: obj, Method: method}
	switch obj.(type) {
	case *types.Func, *types.Var, *types.Const:
	default:
		f.faultf(s.at(v), "%s %q: is no function: want %s", field, v.Text, f.wanted(s, m))
		return nil
	}
	if result := s.single(); m == plain && result != nil && f.isValue(obj, result) {
		l.Value = true
		return l
	}
	if sig, ok := obj.Type().Underlying().(*types.Signature); ok && f.fits(s, sig, m, l) {
		return l
	}
	f.faultf(s.at(v), "%s %q: is %s, which does not fit %s: want %s", field, v.Text, f.typeName(obj.Type()), s.Func.Name(), f.wanted(s, m))
	return nil
}

// lookup finds a method of the receiver, or else a declaration of the package.
func (f *finder) lookup(s *Site, name string) (obj types.Object, method bool) {
	if s.Recv != nil {
		t := s.Recv.Type()
		if sig := s.Func.Signature(); s.Interface == nil && sig.Recv() != nil {
			t = sig.Recv().Type()
		}
		if fn, ok := first3(types.LookupFieldOrMethod(t, true, f.pkg, name)).(*types.Func); ok {
			return fn, true
		}
	}
	return f.pkg.Scope().Lookup(name), false
}

func first3(obj types.Object, _ []int, _ bool) types.Object { return obj }

// single returns the one result beside the error; nil if there is not exactly one.
func (s *Site) single() types.Type {
	r := s.Func.Signature().Results()
	n := r.Len()
	if s.Failing() {
		n--
	}
	if n != 1 {
		return nil
	}
	return r.At(0).Type()
}

// isValue reports whether a variable or constant is a result itself.
func (f *finder) isValue(obj types.Object, result types.Type) bool {
	switch obj := obj.(type) {
	case *types.Var:
		return types.AssignableTo(obj.Type(), result)
	case *types.Const:
		if b, ok := obj.Type().(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
			return constantFits(obj.Val(), result)
		}
		return types.AssignableTo(obj.Type(), result)
	}
	return false
}

// fits reports whether a function of type sig can replace the result, and sets how in
// l.
func (f *finder) fits(s *Site, sig *types.Signature, m manner, l *Link) bool {
	own := s.Func.Signature()
	if sig.TypeParams().Len() > 0 {
		if sig = instance(sig, own); sig == nil {
			return false
		}
		l.Generic = true
	}
	if !assignable(sig.Results(), own.Results()) {
		return false
	}
	given, taken := own.Params().Len(), sig.Params().Len()
	if m != plain {
		if taken == 0 || sig.Variadic() {
			return false
		}
		taken--
		if e := sig.Params().At(taken).Type(); !types.AssignableTo(types.Universe.Lookup("error").Type(), e) {
			return false
		}
		l.Err = true
	}
	if taken == 0 && given != 0 && m == plain {
		return true
	}
	if taken != given {
		return false
	}
	l.Params = true
	for i := range taken {
		if !types.AssignableTo(own.Params().At(i).Type(), sig.Params().At(i).Type()) {
			return false
		}
	}
	l.Variadic = sig.Variadic()
	return !sig.Variadic() || own.Variadic()
}

// assignable reports whether one function can return every result of another.
func assignable(from, to *types.Tuple) bool {
	if from.Len() != to.Len() {
		return false
	}
	for i := range from.Len() {
		if !types.AssignableTo(from.At(i).Type(), to.At(i).Type()) {
			return false
		}
	}
	return true
}

// wanted describes what a field may name.
func (f *finder) wanted(s *Site, m manner) string {
	sig := s.Func.Signature()
	var params []*types.Var
	for p := range sig.Params().Variables() {
		params = append(params, types.NewParam(0, nil, "", p.Type()))
	}
	if m != plain {
		params = append(params, types.NewParam(0, nil, "", types.Universe.Lookup("error").Type()))
	}
	var results []*types.Var
	for r := range sig.Results().Variables() {
		results = append(results, types.NewParam(0, nil, "", r.Type()))
	}
	variadic := sig.Variadic() && m == plain
	want := f.typeName(types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), types.NewTuple(results...), variadic))
	if result := s.single(); m == plain && result != nil {
		want += ", the same without parameters, or a variable or constant of type " + f.typeName(result)
	} else if m == plain {
		want += ", or the same without parameters"
	}
	return want
}

// instance returns a generic function for the type parameters of another; nil if they
// do not fit.
func instance(sig, own *types.Signature) *types.Signature {
	params := own.TypeParams()
	if own.Recv() != nil {
		params = own.RecvTypeParams()
	}
	var args []types.Type
	for p := range params.TypeParams() {
		args = append(args, p)
	}
	if len(args) != sig.TypeParams().Len() {
		return nil
	}
	t, err := types.Instantiate(nil, sig, args, true)
	if err != nil {
		return nil
	}
	return t.(*types.Signature)
}
