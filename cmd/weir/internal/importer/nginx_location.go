package importer

import (
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

// condition returns the expression for a location; "" for all paths.
func condition(l *nginxconf.Location) string {
	var own string
	isPrefix := l.Kind == nginxconf.Prefix || l.Kind == nginxconf.Firm
	switch path := l.Folded(); {
	case l.Kind == nginxconf.Rest || isPrefix && path == "/":
	case l.Kind == nginxconf.Exact:
		if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
			path = trimmed
		}
		own = "request.path == " + cel(path)
	case l.Kind == nginxconf.Expr:
		var ok bool
		if own, ok = textConditions(l.Pattern); !ok {
			own = "request.path.matches(" + cel("(?i)"+l.Pattern) + ")"
		}
	case strings.HasSuffix(path, "/"):
		own = `(request.path + "/").startsWith(` + cel(path) + ")"
	default:
		own = "request.path.startsWith(" + cel(path) + ")"
	}
	if !narrowed(l) {
		return own
	}
	var parts, less []string
	for _, part := range []string{condition(l.Around), own} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	for _, o := range l.Less {
		less = append(less, condition(o))
	}
	if less != nil {
		parts = append(parts, not(less))
	}
	return all(parts)
}

// pathPatterns returns a location as patterns of match.paths, if it has them.
func pathPatterns(l *nginxconf.Location) (patterns []string, ok bool) {
	if l.Kind != nginxconf.Expr {
		p, ok := pathPattern(l)
		return []string{p}, ok
	}
	all, ok := alternatives(l.Pattern)
	if !ok || narrowed(l) {
		return nil, false
	}
	for i := range all {
		p, ok := all[i].pathPattern()
		if !ok {
			return nil, false
		}
		patterns = append(patterns, p)
	}
	return patterns, len(patterns) > 0
}

// pathPattern returns a location that is no regular expression as a pattern of match.paths,
// if it has one.
func pathPattern(l *nginxconf.Location) (string, bool) {
	if strings.ContainsAny(l.Pattern, "%;?#\\*{}") || !strings.HasPrefix(l.Pattern, "/") || narrowed(l) {
		return "", false
	}
	slash := strings.HasSuffix(l.Pattern, "/")
	switch l.Kind {
	case nginxconf.Exact:
		if slash && l.Pattern != "/" {
			return strings.TrimRight(l.Pattern, "/"), true
		}
		return l.Pattern, true
	case nginxconf.Prefix, nginxconf.Firm:
		return l.Pattern + "*", slash
	}
	return "", false
}

// narrowed reports whether the locations around a location add conditions. A prefix in a
// prefix has none.
func narrowed(l *nginxconf.Location) bool {
	return l.Around != nil && l.Around.Kind != nginxconf.Rest && (l.Kind == nginxconf.Expr || l.Around.Kind == nginxconf.Expr)
}
