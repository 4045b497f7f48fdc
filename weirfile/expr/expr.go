package expr

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// Condition compiles an expression with a boolean result.
func Condition(text string) (policy.Expression[bool], error) {
	p, err := compile(text, kind{want: "want an expression that is true or false", environment: environment, accepts: cel.BoolType.IsExactType, constant: func(v ref.Val) string {
		if v == types.False {
			return "never holds: the policy would limit nothing"
		}
		return "always holds: leave it out"
	}})
	if err != nil {
		return nil, err
	}
	return condition{p}, nil
}

// Measure compiles an expression with an integer result.
func Measure(text string) (policy.Expression[int64], error) {
	p, err := compile(text, kind{want: "want an expression that is a whole number", environment: environment, accepts: cel.IntType.IsExactType, constant: func(v ref.Val) string {
		if n, _ := v.(types.Int); n < 1 {
			return fmt.Sprintf("is always %d, want a number of tokens", n)
		}
		return fmt.Sprintf("is always %v: want that number itself, not as text", v)
	}})
	if err != nil {
		return nil, err
	}
	return measure{p}, nil
}

// Text compiles an expression with a text result.
func Text(text string) (policy.Expression[string], error) {
	p, err := compile(text, kind{want: "want an expression that is a text", environment: environment, accepts: cel.StringType.IsExactType, constant: func(v ref.Val) string {
		return fmt.Sprintf("is always %s: want const:TEXT for a key that all share", fault.Quote(fmt.Sprint(v.Value())))
	}})
	if err != nil {
		return nil, err
	}
	return value{p}, nil
}

// A kind is the required type of an expression.
type kind struct {
	want        string
	environment func() (*cel.Env, error)
	accepts     func(*cel.Type) bool
	constant    func(ref.Val) string // what is wrong with one that is always the same
}

// A program is a compiled expression.
type program struct {
	text    string
	run     cel.Program
	checked *cel.Ast          // what run runs
	names   map[string]string // see vars

	response bool     // it reads the response
	members  []string // of response.body
}

// String returns the source of the expression.
func (p *program) String() string { return p.text }

// value evaluates the expression for a request.
func (p *program) value(a policy.Attributes) (ref.Val, error) { return p.eval(a, nil, nil) }

// eval evaluates the expression for a request, and a response with members of its body.
func (p *program) eval(a policy.Attributes, r policy.ResponseValues, body map[string]any) (ref.Val, error) {
	v := pool.Get().(*vars)
	v.a, v.names, v.response, v.body = a, p.names, r, body
	out, _, err := p.run.Eval(v)
	v.a, v.names, v.response, v.body = nil, nil, nil, nil
	clear(v.read)
	pool.Put(v)
	if err != nil {
		return nil, p.failed(err.Error())
	}
	return out, nil
}

func (p *program) failed(why string) error {
	return fmt.Errorf("expr: %s: %s", fault.Quote(strings.TrimSpace(p.text)), fault.Printable(why))
}

type condition struct{ *program }

// Eval implements policy.Expression.
func (c condition) Eval(a policy.Attributes) (bool, error) {
	out, err := c.value(a)
	if err != nil {
		return false, err
	}
	return out == types.True, nil
}

type measure struct{ *program }

// Eval implements policy.Expression.
func (m measure) Eval(a policy.Attributes) (int64, error) {
	out, err := m.value(a)
	if err != nil {
		return 0, err
	}
	n, ok := out.(types.Int)
	if !ok {
		return 0, m.failed("no whole number")
	}
	return int64(n), nil
}

type value struct{ *program }

// Eval implements policy.Expression.
func (t value) Eval(a policy.Attributes) (string, error) {
	out, err := t.value(a)
	if err != nil {
		return "", err
	}
	s, ok := out.(types.String)
	if !ok {
		return "", t.failed("no text")
	}
	return string(s), nil
}
