package importer

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// Regular expressions of locations are usually lists of texts. Those are written as texts:
// they cost an expression a few units, and a regular expression about 1,000 for each of its
// steps.

// A piece is one part of an alternative of a regular expression.
type piece struct {
	kind pieceKind
	text string // of a literal
}

type pieceKind int

const (
	literal   pieceKind = iota
	segment             // one or more characters without a slash
	anything            // any characters, also none
	something           // one or more characters
	beginning
	end
)

// maxAlternatives bounds the texts that one regular expression becomes.
const maxAlternatives = 100

// An alternative is a list of pieces without anchors.
type alternative struct {
	pieces     []piece
	begin, end bool // anchored
}

// alternatives returns the texts that a regular expression matches without case, or false
// if it is more than a list of texts and gaps.
func alternatives(pattern string) (all []alternative, ok bool) {
	re, err := syntax.Parse("(?i)"+pattern, syntax.Perl)
	if err != nil {
		return nil, false
	}
	expanded, ok := expand(re)
	if !ok {
		return nil, false
	}
	for _, pieces := range expanded {
		a, ok := newAlternative(pieces)
		if !ok {
			return nil, false
		}
		if !slices.ContainsFunc(all, a.equal) {
			all = append(all, a)
		}
	}
	return all, true
}

// expand returns the alternatives of a regular expression.
func expand(re *syntax.Regexp) ([][]piece, bool) {
	one := func(t piece) ([][]piece, bool) { return [][]piece{{t}}, true }
	switch re.Op {
	case syntax.OpEmptyMatch:
		return [][]piece{nil}, true
	case syntax.OpLiteral:
		return one(piece{literal, strings.ToLower(string(re.Rune))})
	case syntax.OpBeginText:
		return one(piece{kind: beginning})
	case syntax.OpEndText:
		return one(piece{kind: end})
	case syntax.OpCapture:
		return expand(re.Sub[0])
	case syntax.OpQuest:
		sub, ok := expand(re.Sub[0])
		return append([][]piece{nil}, sub...), ok
	case syntax.OpCharClass:
		return letters(re)
	case syntax.OpStar, syntax.OpPlus:
		switch sub := re.Sub[0]; {
		case sub.Op == syntax.OpAnyChar || sub.Op == syntax.OpAnyCharNotNL:
			return one(piece{kind: map[bool]pieceKind{true: anything, false: something}[re.Op == syntax.OpStar]})
		case re.Op == syntax.OpPlus && sub.String() == "[^/]":
			return one(piece{kind: segment})
		}
	case syntax.OpAlternate:
		var all [][]piece
		for _, sub := range re.Sub {
			more, ok := expand(sub)
			if all = append(all, more...); !ok || len(all) > maxAlternatives {
				return nil, false
			}
		}
		return all, true
	case syntax.OpConcat:
		all := [][]piece{nil}
		for _, sub := range re.Sub {
			more, ok := expand(sub)
			if !ok || len(all)*len(more) > maxAlternatives {
				return nil, false
			}
			var longer [][]piece
			for _, a := range all {
				for _, b := range more {
					longer = append(longer, slices.Concat(a, b))
				}
			}
			all = longer
		}
		return all, true
	}
	return nil, false
}

// letters returns a small class of characters as alternatives.
func letters(re *syntax.Regexp) (all [][]piece, ok bool) {
	for i := 0; i < len(re.Rune); i += 2 {
		if re.Rune[i+1]-re.Rune[i] > 9 {
			return nil, false
		}
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			t := piece{literal, strings.ToLower(string(r))}
			if !slices.ContainsFunc(all, func(o []piece) bool { return o[0] == t }) {
				all = append(all, []piece{t})
			}
		}
	}
	return all, len(all) > 0 && len(all) <= 12
}

// newAlternative joins literals and removes anchors and gaps at both ends.
func newAlternative(pieces []piece) (a alternative, ok bool) {
	for _, t := range pieces {
		last := len(a.pieces) - 1
		switch {
		case t.kind == beginning && last < 0:
			a.begin = true
		case t.kind == beginning || a.end && t.kind != end:
			return a, false // it matches nothing
		case t.kind == end:
			a.end = true
		case t.kind == literal && last >= 0 && a.pieces[last].kind == literal:
			a.pieces[last].text += t.text
		default:
			a.pieces = append(a.pieces, t)
		}
	}
	if n := len(a.pieces); n > 0 && a.pieces[n-1].kind == anything {
		a.pieces, a.end = a.pieces[:n-1], false
	}
	if len(a.pieces) > 0 && a.pieces[0].kind == anything {
		a.pieces, a.begin = a.pieces[1:], false
	}
	return a, true
}

func (a alternative) equal(b alternative) bool {
	return a.begin == b.begin && a.end == b.end && slices.Equal(a.pieces, b.pieces)
}

// kinds returns the kinds of the pieces.
func (a *alternative) kinds() string {
	var s strings.Builder
	for _, t := range a.pieces {
		s.WriteByte("lsax"[t.kind])
	}
	return s.String()
}

// pathPattern returns a as a pattern of match.paths, if it has one.
func (a *alternative) pathPattern() (string, bool) {
	var s strings.Builder
	for i, t := range a.pieces {
		switch t.kind {
		case literal:
			if strings.ContainsAny(t.text, "%;?#\\*{} ") {
				return "", false
			}
			s.WriteString(t.text)
		case segment:
			if !strings.HasSuffix(s.String(), "/") || i+1 < len(a.pieces) && !strings.HasPrefix(a.pieces[i+1].text, "/") {
				return "", false
			}
			fmt.Fprintf(&s, "{any%d}", i)
		default:
			return "", false
		}
	}
	path := s.String()
	switch whole := strings.HasSuffix(path, "/"); {
	case !a.begin || !strings.HasPrefix(path, "/"):
		return "", false
	case a.end:
		if path != "/" {
			path = strings.TrimRight(path, "/")
		}
		return path, true
	default:
		return path + "*", whole
	}
}

// A textCondition collects the conditions for the alternatives of a regular expression.
type textCondition struct {
	equal, beginnings, endings, contained []string // texts in quotes
	parts                                 []string // other conditions
}

// textConditions returns an expression for a regular expression without matches(), if there
// is one.
func textConditions(pattern string) (string, bool) {
	all, ok := alternatives(pattern)
	if !ok || len(all) == 0 {
		return "", false
	}
	var c textCondition
	for i := range all {
		if !c.add(&all[i]) {
			return "", false
		}
	}
	texts := slices.Concat(c.equalities(), exists("startsWith", c.beginnings), exists("endsWith", c.endings), exists("contains", c.contained), c.parts)
	return either(texts), true
}

// equalities returns the condition for whole paths.
func (c *textCondition) equalities() []string {
	switch len(c.equal) {
	case 0:
		return nil
	case 1:
		return []string{"request.path == " + c.equal[0]}
	}
	return []string{"request.path in [" + strings.Join(c.equal, ", ") + "]"}
}

// exists returns the conditions that a function is true for one of some texts in quotes. A
// text with a slash at its end is compared with the path and a slash, which paths do not
// have at their end.
func exists(function string, texts []string) (conditions []string) {
	for _, path := range []string{"request.path", `(request.path + "/")`} {
		var some []string
		for _, text := range texts {
			if strings.HasSuffix(text, `/"`) == (path != "request.path") {
				some = append(some, text)
			}
		}
		if len(some) > 3 { // shorter than a condition for each
			conditions = append(conditions, fmt.Sprintf("[%s].exists(x, %s.%s(x))", strings.Join(some, ", "), path, function))
			continue
		}
		for _, text := range some {
			conditions = append(conditions, fmt.Sprintf("%s.%s(%s)", path, function, text))
		}
	}
	return conditions
}

// add adds the condition of one alternative, and reports whether there is one.
func (c *textCondition) add(a *alternative) bool {
	first, last := "", ""
	if n := len(a.pieces); n > 0 {
		first, last = a.pieces[0].text, a.pieces[n-1].text
	}
	if a.begin && !strings.HasPrefix(first, "/") {
		return false
	}
	kinds := a.kinds()
	if a.end && strings.HasSuffix(kinds, "l") && last != "/" {
		last = strings.TrimRight(last, "/") // paths have no slash at their end
	}
	switch anchors := fmt.Sprint(a.begin, a.end); {
	case kinds == "l" && anchors == "true true":
		if !slices.Contains(c.equal, cel(last)) {
			c.equal = append(c.equal, cel(last))
		}
	case kinds == "l" && anchors == "true false":
		c.beginnings = append(c.beginnings, cel(first))
	case kinds == "lx" && a.begin && strings.HasSuffix(first, "/"):
		c.parts = append(c.parts, "request.path.startsWith("+cel(first)+")")
	case kinds == "l" && anchors == "false true" && last != "" && last != "/":
		c.endings = append(c.endings, cel(last))
	case kinds == "l" && anchors == "false false":
		c.contained = append(c.contained, cel(first))
	case kinds == "lal" && anchors == "false true" && last != "" && !strings.Contains(last, first[len(first)-1:]): // they cannot overlap
		c.parts = append(c.parts, fmt.Sprintf("(request.path.contains(%s) && request.path.endsWith(%s))", cel(first), cel(last)))
	case (kinds == "lal" || kinds == "lxl" || kinds == "lsl") && anchors == "true true" && last != "":
		c.between(first, last, a.pieces[1].kind)
	default:
		return false
	}
	return true
}

// between adds the condition for paths with a gap between two texts.
func (c *textCondition) between(first, last string, gap pieceKind) {
	both := []string{"request.path.startsWith(" + cel(first) + ")", "request.path.endsWith(" + cel(last) + ")"}
	if gap == segment { // the gap has no slash
		both = append(both, fmt.Sprintf(`request.path.split("/").size() == %d`, strings.Count(first+last, "/")+1))
	}
	least := len([]rune(first + last))
	if gap != anything {
		least++
	}
	both = append(both, fmt.Sprintf("request.path.size() >= %d", least))
	c.parts = append(c.parts, all(both))
}
