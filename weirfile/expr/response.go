package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// The names of a response, in an expression of ResponseCost alone.
const (
	status          = "response.status"
	responseHeaders = "response.headers"
	body            = "response.body"

	maxMembers = 16  // different members of response.body
	maxMember  = 256 // bytes of the value of one
	maxNumber  = 1 << 53
)

var responseEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	return env.Extend(cel.Variable(status, cel.IntType), cel.Variable(responseHeaders, cel.MapType(cel.StringType, cel.StringType)), cel.Variable(body, cel.DynType))
})

// ResponseCost compiles an expression for a cost that reads the response:
//
//	response.status     the status, a whole number
//	response.headers    values by name, without case
//	response.body       members of a JSON body, such as response.body.usage.total_tokens; in a stream
//	                    of events, the last value of each
//
// It can read the request too. The result is a number, rounded up. A member is a whole number, also
// one in a string, a decimal number, a text, true or false. CEL does not multiply whole by decimal
// numbers: write double(response.body.usage.total_tokens) * 1.5.
func ResponseCost(text string) (policy.ResponseExpression, error) {
	numbers := []types.Kind{types.IntKind, types.UintKind, types.DoubleKind, types.DynKind}
	p, err := compile(text, kind{
		want: "want an expression that is a number", environment: responseEnvironment,
		accepts:  func(t *cel.Type) bool { return slices.Contains(numbers, t.Kind()) },
		constant: constantCost,
	})
	if err != nil {
		return nil, err
	}
	line, column := start(text)
	if !p.response {
		return nil, faultAt(line, column, "want response.body, response.headers or response.status in it, or the expression as the cost itself")
	}
	r := responseCost{p}
	whole, decimal := r.try("1"), r.try("1.5")
	if whole != nil && strings.Contains(whole.Error(), "no such overload") && (decimal == nil || !strings.Contains(decimal.Error(), "no such overload")) {
		return nil, faultAt(line, column, "cannot be evaluated for whole numbers: want double(…) around them, such as double(response.body.usage.total_tokens) * 1.5")
	}
	return r, nil
}

type responseCost struct{ *program }

// Paths implements policy.ResponseExpression.
func (r responseCost) Paths() []string { return r.members }

// Cost implements policy.ResponseExpression.
func (r responseCost) Cost(a policy.Attributes, of policy.ResponseValues) (int64, error) {
	values, missing := map[string]any{}, ""
	for _, path := range r.members {
		text, ok := of.Body(path)
		if !ok {
			missing = path
			continue
		}
		put(values, strings.Split(path, "."), member(text))
	}
	out, err := r.eval(a, of, values)
	switch {
	case err != nil && missing != "":
		return 0, fmt.Errorf("%w: no value at %s: %w", budget.ErrNoUsage, missing, err)
	case err != nil:
		return 0, fmt.Errorf("%w: %w", budget.ErrBadUsage, err)
	}
	n := math.NaN()
	switch v := out.Value().(type) {
	case int64:
		n = float64(v)
	case uint64:
		n = float64(v)
	case float64:
		n = math.Ceil(v)
	}
	if !(n >= 0 && n <= maxNumber) {
		return 0, fmt.Errorf("%w: %w", budget.ErrBadUsage, r.failed(fmt.Sprintf("got %.40s, want a number from 0", fmt.Sprint(out.Value()))))
	}
	return int64(n), nil
}

// put sets the value of a path in nested maps.
func put(to map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := to[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			to[name] = inner
		}
		to = inner
	}
	if last := path[len(path)-1]; to[last] == nil {
		to[last] = value
	}
}

// member returns the value of a JSON text. A whole number in a string is a number.
func member(text json.RawMessage) any {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return string(text)
	}
	digits := string(text)
	if s, ok := v.(string); ok {
		digits = s
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n
	}
	return v
}

// try evaluates r with one value for all members.
func (r responseCost) try(value string) error {
	_, err := r.Cost(nothing{}, sample(value))
	if errors.Is(err, budget.ErrNoUsage) {
		return nil
	}
	return err
}

// A sample is a response with one value for all members.
type sample string

func (sample) Status() int                           { return 200 }
func (sample) Header(string) []string                { return []string{"1"} }
func (s sample) Body(string) (json.RawMessage, bool) { return json.RawMessage(s), true }

// nothing is a request without values.
type nothing struct{}

func (nothing) Method() string         { return "POST" }
func (nothing) Host() string           { return "localhost" }
func (nothing) Path() string           { return "/" }
func (nothing) Header(string) []string { return nil }
func (nothing) Query(string) []string  { return nil }
func (nothing) Cookie(string) []string { return nil }
func (nothing) ClientIP() netip.Addr   { return netip.Addr{} }

// member records the path of a member of response.body.
func (c *checker) member(e ast.NavigableExpr) {
	var names []string
	at := e
	for {
		parent, ok := at.Parent()
		if !ok {
			break
		}
		name, found := "", false
		switch parent.Kind() {
		case ast.SelectKind:
			name, found = parent.AsSelect().FieldName(), true
		case ast.CallKind:
			if call := parent.AsCall(); call.FunctionName() == operators.Index && call.Args()[0].ID() == at.ID() {
				name, found = literal(call.Args()[1])
			}
		}
		if !found {
			break
		}
		if name == "" || strings.ContainsAny(name, ".+ \t\r\n") {
			c.fail(e, "want names of members without dots, spaces and plus signs, got %s", fault.Quote(name))
			return
		}
		names, at = append(names, name), parent
	}
	if len(names) == 0 {
		c.fail(e, "want a member of it, such as response.body.usage.total_tokens")
		return
	}
	path := strings.Join(names, ".")
	if slices.Contains(c.members, path) {
		return
	}
	if c.members = append(c.members, path); len(c.members) == maxMembers+1 {
		c.fail(e, "want at most %d different members", maxMembers)
	}
}

func constantCost(v ref.Val) string {
	return fmt.Sprintf("is always %v: want that number as the cost itself", v.Value())
}
