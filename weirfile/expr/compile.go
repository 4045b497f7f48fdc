package expr

import (
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/ext"

	"github.com/floodweir/weir/internal/fault"
)

const (
	// MaxText is the maximum length of an expression, in bytes.
	MaxText = 4096

	// MaxCost is the maximum cost of an expression for any request, in CEL's units. One
	// unit takes about twenty nanoseconds.
	MaxCost = 100_000

	// watched is the cost up to which an expression runs without a cost limit, which
	// takes longer than running it. Such an expression has no loop over values of a
	// request.
	watched = 10_000

	// maxNodes is the maximum number of values, names and calls after macro expansion.
	// Only an artificial text of MaxText has more.
	maxNodes = 10_000

	// maxNested is the maximum nesting depth of loops.
	maxNested = 2

	// maxDepth is the maximum nesting depth of parentheses and calls. The time to check
	// types grows with more than its square.
	maxDepth = 40
)

// environment returns the CEL environment, which is immutable.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	byName := cel.MapType(cel.StringType, cel.StringType)
	return cel.NewEnv(
		cel.Variable(method, cel.StringType), cel.Variable(host, cel.StringType), cel.Variable(path, cel.StringType),
		cel.Variable(headers, byName), cel.Variable(query, byName), cel.Variable(cookies, byName),
		cel.Variable(clientIP, cel.StringType), cel.Variable(claims, byName),
		ext.Strings(), ext.Network(),
		cel.ASTValidators(cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateComprehensionNestingLimit(maxNested)),
		cel.ParserExpressionSizeLimit(MaxText), cel.ParserRecursionLimit(maxDepth), cel.ExpressionNodeLimit(maxNodes),
	)
})

// compile compiles a text. It returns Errors, or an error of CEL's setup.
func compile(text string, k kind) (*program, error) {
	env, err := k.environment()
	if err != nil {
		return nil, fmt.Errorf("expr: %w", err)
	}
	switch {
	case len(text) > MaxText:
		return nil, faultAt(1, 1, "want an expression of at most %d bytes, got %d", MaxText, len(text))
	case !utf8.ValidString(text):
		return nil, faultAt(1, 1, "want text in UTF-8")
	case strings.TrimSpace(text) == "":
		return nil, faultAt(1, 1, "%s, got an empty text", k.want)
	}
	checked, iss := env.Compile(text)
	if iss.Err() != nil {
		return nil, issues(text, iss)
	}
	if t := checked.OutputType(); !k.accepts(t) {
		line, column := start(text)
		return nil, faultAt(line, column, "%s, got one of type %s", k.want, t)
	}
	c := &checker{info: checked.NativeRep().SourceInfo(), names: map[string]string{}, patterns: map[string]uint64{}}
	c.check(ast.NavigateAST(checked.NativeRep()))
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	most, err := c.cost(env, checked, text)
	if err != nil {
		return nil, err
	}
	checked, err = fold(env, checked, c.constant, text, k)
	if err != nil {
		return nil, err
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if most > watched {
		options = append(options, cel.CostLimit(MaxCost))
	}
	run, err := env.Program(checked, options...)
	if err != nil {
		line, column := start(text)
		return nil, faultAt(line, column, "%s", fault.Printable(err.Error()))
	}
	return &program{text: text, run: run, checked: checked, names: c.names, response: c.response, members: c.members}, nil
}

// fold evaluates constant parts. It refuses an expression that is constant as a whole.
func fold(env *cel.Env, checked *cel.Ast, constant bool, text string, k kind) (*cel.Ast, error) {
	line, column := start(text)
	if constant {
		run, err := env.Program(checked, cel.CostLimit(MaxCost))
		if err != nil {
			return nil, faultAt(line, column, "%s", fault.Printable(err.Error()))
		}
		out, _, err := run.Eval(cel.NoVars())
		if err != nil {
			return nil, faultAt(line, column, "cannot be evaluated: %s", fault.Printable(err.Error()))
		}
		return nil, faultAt(line, column, "%s", k.constant(out))
	}
	folder, err := cel.NewConstantFoldingOptimizer()
	if err != nil {
		return nil, fmt.Errorf("expr: %w", err)
	}
	optimizer, err := cel.NewStaticOptimizer(folder)
	if err != nil {
		return nil, fmt.Errorf("expr: %w", err)
	}
	folded, iss := optimizer.Optimize(env, checked)
	if iss.Err() != nil {
		return checked, nil // a value that cannot be written, such as a prefix of addresses, is computed each time
	}
	if e := folded.NativeRep().Expr(); e.Kind() == ast.LiteralKind {
		return nil, faultAt(line, column, "%s", k.constant(e.AsLiteral()))
	}
	return folded, nil
}

// start returns the position of the first character that is not white space.
func start(text string) (line, column int) {
	before := text[:len(text)-len(strings.TrimLeft(text, " \t\r\n"))]
	return 1 + strings.Count(before, "\n"), 1 + len(before) - (1 + strings.LastIndexByte(before, '\n'))
}
