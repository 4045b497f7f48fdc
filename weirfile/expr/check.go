package expr

import (
	"net/netip"
	"net/textproto"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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

// spelling refuses a comparison by a function or operator with a text that its subject never has.
func (c *checker) spelling(subject, with ast.Expr, function string) {
	text, ok := literal(with)
	if !ok || subject.Kind() != ast.IdentKind {
		return
	}
	name, whole := subject.AsIdent(), function == operators.Equals
	fromStart, want := whole || function == overloads.StartsWith, ""
	switch name {
	case path:
		switch {
		case strings.ToLower(text) != text:
			want = "want lower case: %s is"
		case whole && len(text) > 1 && strings.HasSuffix(text, "/"):
			want = "want it without the slash at its end: %s has none"
		case (whole || text != "") && fromStart && !strings.HasPrefix(text, "/"):
			want = "want a slash first: %s begins with one"
		}
	case host:
		switch {
		case strings.ToLower(text) != text:
			want = "want lower case: %s is"
		case strings.Contains(text, "*"):
			want = `want no *: %s has a whole name; .endsWith(".example.com") is true for all below it`
		case strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }):
			want = "want ASCII (Punycode), such as xn--mnchen-3ya.de for münchen.de: %s is as requests have it"
		case whole && (strings.ContainsAny(text, "[]/") || strings.Count(text, ":") == 1 || strings.HasSuffix(text, ".")):
			want = "want a name without port, brackets, slash and final dot: %s has none"
		}
	case method:
		if whole && strings.ToUpper(text) != text {
			want = "want upper case: %s is as the client sent it"
		}
	case clientIP:
		switch a, err := netip.ParseAddr(text); {
		case !whole || text == "":
		case err != nil:
			want = `want an address; cidr("10.0.0.0/8").containsIP(%s) is true for those of a prefix`
		case a.Unmap().String() != text:
			want = "want " + a.Unmap().String() + ", the spelling of %s"
		}
	}
	if want != "" {
		c.fail(with, want, name)
	}
}

// call requires patterns and formats to be constants.
func (c *checker) call(e ast.NavigableExpr) {
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.Equals, operators.NotEquals:
		c.spelling(args[0], args[1], operators.Equals)
		c.spelling(args[1], args[0], operators.Equals)
	case operators.In:
		if args[1].Kind() == ast.ListKind {
			for _, e := range args[1].AsList().Elements() {
				c.spelling(args[0], e, operators.Equals)
			}
		}
	case overloads.StartsWith, overloads.EndsWith, overloads.Contains:
		if call.IsMemberFunction() {
			c.spelling(call.Target(), args[0], call.FunctionName())
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
		subject := args[0]
		if call.IsMemberFunction() {
			subject = call.Target()
		}
		if name := subject.AsIdent(); (name == path || name == host) && upper(text) {
			c.fail(pattern, "want lower case: %s is", name)
		}
	case "format":
		if call.IsMemberFunction() && call.Target().Kind() != ast.LiteralKind {
			c.fail(call.Target(), "want the format itself in quotes: one that is computed could be of any size")
		}
	}
}

// upper reports whether a pattern requires upper-case letters.
func upper(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && upperIn(re)
}

func upperIn(re *syntax.Regexp) bool {
	isUpper := func(r rune) bool { return unicode.ToLower(r) != r }
	return re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 && slices.ContainsFunc(re.Rune, isUpper) || slices.ContainsFunc(re.Sub, upperIn)
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
