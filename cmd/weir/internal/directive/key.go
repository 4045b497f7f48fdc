package directive

import (
	"fmt"
	"go/types"
	"strconv"
	"strings"
)

// key resolves the expressions of key.
func (f *finder) key(s *Site) {
	for _, v := range s.Directive.Keys {
		if v.Text == Instance {
			s.Key = append(s.Key, KeyExpr{Instance: true})
			continue
		}
		names := strings.Split(v.Text, ".")
		param := s.param(names[0])
		if param < 0 {
			f.faultf(s.at(v), "key %q: %s has no parameter %s: want %s%s", v.Text, s.Func.Name(), names[0], s.params(), orName(v.Text))
			continue
		}
		t := s.Func.Signature().Params().At(param).Type()
		ok, pointer, indirect := true, false, false
		for i, name := range names[1:] {
			t, indirect, ok = f.fieldOf(t, name)
			if pointer = pointer || indirect; !ok {
				f.faultf(s.at(v), "key %q: %s has no field %s that this package can read", v.Text, strings.Join(names[:i+1], "."), name)
				break
			}
		}
		switch {
		case !ok:
		case s.Func.Signature().Variadic() && param == s.Func.Signature().Params().Len()-1:
			f.faultf(s.at(v), "key %q: is a list: want one value", v.Text)
		case t == types.Typ[types.Invalid]:
			f.faultf(s.at(v), "key %q: has an unknown type", v.Text)
		case !identifies(t):
			f.faultf(s.at(v), "key %q: is of type %s: want a string, an integer, a bool, or a type with a method String() string", v.Text, f.typeName(t))
		default:
			s.Key = append(s.Key, KeyExpr{Param: param, Path: names[1:], Type: t, Stringer: stringer(t), MayPanic: pointer || stringer(t)})
		}
	}
}

// orName suggests the field name for a key that is a fixed text, as a key is in many other
// libraries.
func orName(key string) string {
	if !isName(key) {
		return ""
	}
	return ", or name=" + key + " to name the limit"
}

// cost resolves the parameter that is the cost.
func (f *finder) cost(s *Site) {
	v := s.Directive.Cost
	if !v.Set {
		return
	}
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
		s.Cost = n
		return
	}
	s.CostOf = s.param(v.Text)
	if s.CostOf < 0 {
		f.faultf(s.at(v), "cost %q: %s has no parameter %s: want a whole number from 1 on, or %s", v.Text, s.Func.Name(), v.Text, s.params())
		return
	}
	t := s.Func.Signature().Params().At(s.CostOf).Type()
	if b, ok := t.Underlying().(*types.Basic); !ok || b.Info()&types.IsInteger == 0 {
		f.faultf(s.at(v), "cost %q: is of type %s: want an integer", v.Text, f.typeName(t))
	}
}

// param returns the index of a parameter, -1 if there is none of this name.
func (s *Site) param(name string) int {
	params := s.Func.Signature().Params()
	for i := range params.Len() {
		if params.At(i).Name() == name && name != "_" {
			return i
		}
	}
	return -1
}

// params lists the parameters in words.
func (s *Site) params() string {
	var names []string
	for p := range s.Func.Signature().Params().Variables() {
		if p.Name() != "" && p.Name() != "_" {
			names = append(names, p.Name())
		}
	}
	switch {
	case s.Func.Signature().Params().Len() == 0:
		return "a function with parameters"
	case len(names) == 0:
		return "a parameter with a name"
	case len(names) == 1:
		return names[0]
	}
	return fmt.Sprintf("%s or %s", strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
}

// fieldOf returns the type of a field, and whether it is behind a pointer.
func (f *finder) fieldOf(t types.Type, name string) (of types.Type, indirect, ok bool) {
	obj, _, indirect := types.LookupFieldOrMethod(t, true, f.pkg, name)
	if v, ok := obj.(*types.Var); ok {
		return v.Type(), indirect, true
	}
	return nil, false, false
}

// identifies reports whether a value of the type can be part of a key.
func identifies(t types.Type) bool {
	if stringer(t) {
		return true
	}
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		return constrained(p.Constraint())
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsString|types.IsInteger|types.IsBoolean) != 0
}

// constrained reports whether every type of a constraint can be part of a key.
func constrained(t types.Type) bool {
	it, ok := t.Underlying().(*types.Interface)
	if !ok {
		return identifies(t)
	}
	for e := range it.EmbeddedTypes() {
		u, ok := e.(*types.Union)
		if !ok {
			if constrained(e) {
				return true
			}
			continue
		}
		all := u.Len() > 0
		for term := range u.Terms() {
			all = all && constrained(term.Type())
		}
		if all {
			return true
		}
	}
	return false
}

func stringer(t types.Type) bool {
	obj, _, _ := types.LookupFieldOrMethod(t, false, nil, "String")
	fn, ok := obj.(*types.Func)
	if !ok {
		return false
	}
	sig := fn.Signature()
	return sig.Params().Len() == 0 && sig.Results().Len() == 1 && types.Identical(sig.Results().At(0).Type(), types.Typ[types.String])
}

// contextOf finds the context of a call: a parameter, or one with a method that returns
// it.
func contextOf(sig *types.Signature) Context {
	for i := range sig.Params().Len() {
		if isContext(sig.Params().At(i).Type()) {
			return Context{Param: i}
		}
	}
	for i := range sig.Params().Len() {
		obj, _, _ := types.LookupFieldOrMethod(sig.Params().At(i).Type(), true, nil, "Context")
		fn, ok := obj.(*types.Func)
		if ok && fn.Signature().Params().Len() == 0 && fn.Signature().Results().Len() == 1 && isContext(fn.Signature().Results().At(0).Type()) &&
			!(sig.Variadic() && i == sig.Params().Len()-1) {
			return Context{Param: i, Method: true}
		}
	}
	return Context{Param: -1}
}

func isContext(t types.Type) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "context" && n.Obj().Name() == "Context"
}

// writerOf returns the index of the http.ResponseWriter of a function without results, -1 if there
// is none.
func writerOf(sig *types.Signature) int {
	for i := range sig.Params().Len() {
		n, ok := types.Unalias(sig.Params().At(i).Type()).(*types.Named)
		if ok && sig.Results().Len() == 0 && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == "net/http" && n.Obj().Name() == "ResponseWriter" {
			return i
		}
	}
	return -1
}

// returnsText reports whether the only result of a function is a string.
func returnsText(sig *types.Signature) bool {
	if sig.Results().Len() != 1 {
		return false
	}
	b, ok := sig.Results().At(0).Type().Underlying().(*types.Basic)
	return ok && b.Kind() == types.String
}

// typeName returns a type as this package writes it.
func (f *finder) typeName(t types.Type) string {
	return types.TypeString(t, f.qualifier)
}

func (f *finder) qualifier(p *types.Package) string {
	if p == f.pkg {
		return ""
	}
	return p.Name()
}
