package expr

import (
	"net/textproto"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// A checker refuses CEL that a request could make slow, or that has no meaning.
type checker struct {
	info     *ast.SourceInfo
	errs     Errors
	constant bool              // nothing of the request is mentioned
	names    map[string]string // canonical names of the headers that are mentioned
	patterns map[string]uint64 // the sizes of compiled patterns
	claims   map[string]bool   // that are mentioned
	response bool              // the response is mentioned
	members  []string          // of response.body that are mentioned
}

func (c *checker) fail(e ast.Expr, want string, args ...any) {
	at := c.info.GetStartLocation(e.ID())
	column := at.Column() + 1
	if e.Kind() == ast.IdentKind { // whose place is that of its dot
		column -= max(0, strings.LastIndexByte(e.AsIdent(), '.'))
	}
	if len(c.errs) < maxErrors {
		c.errs = append(c.errs, faultAt(at.Line(), column, want, args...)...)
	}
}

// check visits every part of an expression.
func (c *checker) check(root ast.NavigableExpr) {
	c.constant = true
	for _, e := range ast.MatchDescendants(root, ast.AllMatcher()) {
		switch e.Kind() {
		case ast.IdentKind:
			switch name := e.AsIdent(); name {
			case headers, query, cookies, claims, responseHeaders:
				c.lookup(e, name)
				c.constant, c.response = false, c.response || name == responseHeaders
			case body:
				c.member(e)
				c.constant, c.response = false, true
			case status:
				c.constant, c.response = false, true
			case method, host, path, clientIP:
				c.constant = false
			}
		case ast.CallKind:
			c.call(e)
		}
	}
}

// lookup accepts request.headers["x"], request.headers.x and "x" in request.headers,
// since a request returns values only by name.
func (c *checker) lookup(e ast.NavigableExpr, name string) {
	parent, ok := e.Parent()
	switch {
	case ok && parent.Kind() == ast.SelectKind:
		if s := parent.AsSelect(); s.IsTestOnly() {
			c.fail(e, `want "%s" in %s, or %s["%s"] != ""`, s.FieldName(), name, name, s.FieldName())
		} else {
			c.name(parent, name, s.FieldName())
		}
		return
	case ok && parent.Kind() == ast.CallKind:
		call := parent.AsCall()
		args := call.Args()
		at, key := 0, 1
		if call.FunctionName() == operators.In {
			at, key = 1, 0
		} else if call.FunctionName() != operators.Index {
			break
		}
		if len(args) == 2 && args[at].ID() == e.ID() && args[key].ID() != e.ID() {
			if args[key].Kind() == ast.LiteralKind {
				if s, ok := args[key].AsLiteral().(types.String); ok {
					c.name(args[key], name, string(s))
				}
			} else if name == claims {
				c.fail(args[key], `want the name of a claim in quotes, such as claims["sub"]`)
			}
			return
		}
	}
	c.fail(e, `want one value such as %s["x"]: they are not listed, counted or compared`, name)
}

// name checks the name of a value.
func (c *checker) name(e ast.Expr, of, name string) {
	switch of {
	case query:
		return
	case claims:
		c.claim(e, name)
		return
	}
	switch {
	case !isToken(name):
		c.fail(e, "want a name as HTTP has them, got %s", fault.Quote(name))
	case of == headers && strings.EqualFold(name, "Host"):
		c.fail(e, "want request.host, which knows case and ports")
	case of == headers || of == responseHeaders:
		c.names[name] = textproto.CanonicalMIMEHeaderKey(name)
	}
}

// claim checks the name of a claim.
func (c *checker) claim(e ast.Expr, name string) {
	if _, err := policy.ParseKeyPart("claim:" + name); err != nil {
		c.fail(e, `want the name of a claim, such as claims["sub"] or claims["sub@X-Jwt-Payload"]`)
	}
	if c.claims == nil {
		c.claims = map[string]bool{}
	}
	if c.claims[name] = true; len(c.claims) == maxClaims+1 {
		c.fail(e, "want at most %d different claims", maxClaims)
	}
}

// isToken reports whether s is a token of HTTP (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// spelling refuses a comparison with a text that a path or host never equals.
func (c *checker) spelling(subject, with ast.Expr, whole bool) {
	text, ok := literal(with)
	if !ok || subject.Kind() != ast.IdentKind {
		return
	}
	name := subject.AsIdent()
	switch {
	case name != path && name != host:
	case strings.ToLower(text) != text:
		c.fail(with, "want lower case: %s is", name)
	case name == path && whole && len(text) > 1 && strings.HasSuffix(text, "/"):
		c.fail(with, "want it without the slash at its end: %s has none", name)
	case name == path && whole && !strings.HasPrefix(text, "/"):
		c.fail(with, "want a slash first: %s begins with one", name)
	}
}

// call requires patterns and formats to be constants.
func (c *checker) call(e ast.NavigableExpr) {
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		c.spelling(args[0], args[1], true)
		c.spelling(args[1], args[0], true)
	case operators.In:
		if args[1].Kind() == ast.ListKind {
			for _, e := range args[1].AsList().Elements() {
				c.spelling(args[0], e, true)
			}
		}
	case overloads.StartsWith, overloads.EndsWith, overloads.Contains:
		if call.IsMemberFunction() {
			c.spelling(call.Target(), args[0], false)
		}
	case overloads.Matches:
		pattern := args[len(args)-1]
		text, ok := literal(pattern)
		if !ok {
			c.fail(pattern, "want the pattern itself in quotes: one that is computed could be of any size")
			return
		}
		size, err := types.RegexProgramSize(text)
		if err != nil {
			c.fail(pattern, "want a regular expression (RE2): %s", fault.Printable(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
			return
		}
		c.patterns[text] = uint64(max(1, size))
	case "format":
		if call.IsMemberFunction() && call.Target().Kind() != ast.LiteralKind {
			c.fail(call.Target(), "want the format itself in quotes: one that is computed could be of any size")
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	s, ok := e.AsLiteral().(types.String)
	return string(s), ok
}

// cost returns the maximum cost of an expression. It refuses one above MaxCost.
func (c *checker) cost(env *cel.Env, checked *cel.Ast, text string) (most uint64, err error) {
	line, column := start(text)
	estimate, err := env.EstimateCost(checked, estimator{c.patterns})
	switch {
	case err != nil:
		return 0, faultAt(line, column, "%s", fault.Printable(err.Error()))
	case estimate.IsUnknown():
		return 0, faultAt(line, column, "want an expression that costs at most %d for any request, got one without a bound", uint64(MaxCost))
	case estimate.Max > MaxCost:
		return 0, faultAt(line, column, "want an expression that costs at most %d for any request, got one of %d", uint64(MaxCost), estimate.Max)
	}
	return estimate.Max, nil
}

// An estimator bounds the length of the values of a request and the cost of patterns.
type estimator struct{ patterns map[string]uint64 }

// EstimateSize implements cost.Estimator.
func (estimator) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	p := n.Path()
	if len(p) > 1 && p[0] == body {
		s := cost.RangedSizeEstimate(0, maxMember)
		return &s
	}
	if len(p) == 0 || n.Type().Kind() != types.StringKind {
		return nil
	}
	most := uint64(0)
	switch p[0] {
	case method:
		most = maxMethod
	case host:
		most = maxHost
	case path:
		most = maxPath
	case clientIP:
		most = maxIP
	case headers, query, cookies, claims, responseHeaders:
		most = MaxValue
	default:
		return nil
	}
	s := cost.RangedSizeEstimate(0, most)
	return &s
}

// EstimateCallCost implements cost.Estimator.
func (est estimator) EstimateCallCost(_, overload string, target *cost.AstNode, args []cost.AstNode) *cost.CallEstimate {
	switch overload {
	case overloads.BoolToString, overloads.IntToString, overloads.UintToString, overloads.DoubleToString, overloads.TimestampToString, overloads.DurationToString:
		const longest = 330 // -1.79e308 in digits is shorter
		size := cost.RangedSizeEstimate(1, longest)
		return cost.NewCallEstimate(cost.FixedCostEstimate(1), &size)
	case overloads.Matches, overloads.MatchesString:
		if target == nil {
			target, args = &args[0], args[1:]
		}
		pattern, ok := literal(args[0].Expr())
		size := cost.EstimateSize(est, *target)
		if !ok || size.IsUnknown() {
			return nil
		}
		// Each character may be compared with each step of the pattern.
		steps := cost.SafeMultiply(size.Max+1, est.patterns[pattern])
		return cost.NewCallEstimate(cost.RangedCostEstimate(1, cost.SafeMultiplyByFactor(steps, costOfStep)), nil)
	}
	return nil
}

// costOfStep is the cost of comparing a character with a step of a pattern.
const costOfStep = 0.25
