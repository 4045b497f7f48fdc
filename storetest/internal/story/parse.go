package story

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/floodweir/weir"
)

// defaultStart is when a story without a start line begins.
var defaultStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// Parse reads a story. An error begins with name and line, as in a.txt:3.
func Parse(name, text string) (*Story, error) {
	p := &parser{story: &Story{Name: name, Start: defaultStart, lines: strings.Split(text, "\n")}, limits: map[string]weir.Limit{}}
	p.now = p.story.Start
	for i, line := range p.story.lines {
		p.line = i + 1
		if err := p.read(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	return p.story, nil
}

type parser struct {
	story  *Story
	line   int
	now    int64
	limits map[string]weir.Limit
	first  weir.Limit // the limit that goes without saying
}

func (p *parser) read(line string) error {
	line = strings.TrimSpace(line)
	switch {
	case line == "" || line[0] == '#':
		return nil
	case line[0] == '|':
		return p.member(line[1:])
	}
	head, rest, _ := strings.Cut(line, " ")
	switch head {
	case "start":
		return p.start(strings.TrimSpace(rest))
	case "limit":
		return p.limit(rest)
	}
	return p.step(line)
}

func (p *parser) start(text string) error {
	if len(p.story.Steps) > 0 || p.story.Start != defaultStart {
		return fmt.Errorf("want one start, before everything that happens")
	}
	us, err := p.instant(text)
	if err != nil {
		return err
	}
	p.story.Start, p.now = us, us
	return nil
}

func (p *parser) limit(rest string) error {
	before, after, named := strings.Cut(rest, " named ")
	state := ""
	if named = named && !strings.Contains(before, ":"); named {
		var err error
		if state, after, err = word(strings.TrimSpace(after)); err != nil {
			return err
		}
		rest = before + after
	}
	name, text, ok := strings.Cut(rest, ":")
	name = strings.TrimSpace(name)
	if !ok || name == "" || strings.ContainsAny(name, " ,\"") {
		return fmt.Errorf(`want "limit NAME: TEXT" or "limit NAME named STATE: TEXT", got %q`, "limit "+rest)
	}
	if _, ok := p.limits[name]; ok {
		return fmt.Errorf("limit %s is there already", name)
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		return err
	}
	if named {
		l = l.Named(state)
	}
	p.limits[name] = l
	if p.first.IsZero() {
		p.first = l
	}
	return nil
}

// word cuts a quoted word, or one that ends before a colon, from the beginning of text.
func word(text string) (word, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		i := max(0, strings.Index(text, ":"))
		return strings.TrimSpace(text[:i]), text[i:], nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("want a closed quotation, got %s", text)
	}
	word, err = strconv.Unquote(quoted)
	return word, text[len(quoted):], err
}

// step reads an instant, a request, and what is behind the arrow.
func (p *parser) step(line string) error {
	words, answer, err := split(line)
	if err != nil {
		return err
	}
	when, words := words[0], words[1:]
	if when == "at" && len(words) > 0 {
		when, words = "at "+words[0], words[1:]
	}
	if p.now, err = p.when(when); err != nil {
		return err
	}
	s := Step{Line: p.line, Now: p.now}
	if len(words) == 1 && words[0] == "all" {
		s.Batch = true
		s.Want, err = parseAnswer(answer, &weir.Request{})
		p.story.Steps = append(p.story.Steps, s)
		return err
	}
	a, err := p.ask(words, answer)
	s.Asks = []Ask{a}
	p.story.Steps = append(p.story.Steps, s)
	return err
}

// member reads a request of a batch.
func (p *parser) member(line string) error {
	n := len(p.story.Steps)
	if n == 0 || !p.story.Steps[n-1].Batch {
		return fmt.Errorf(`want a request after a bar only below "all"`)
	}
	words, answer, err := split(line)
	if err != nil {
		return err
	}
	a, err := p.ask(words, answer)
	p.story.Steps[n-1].Asks = append(p.story.Steps[n-1].Asks, a)
	return err
}

// when reads the instant of a line.
func (p *parser) when(text string) (us int64, err error) {
	if rest, ok := strings.CutPrefix(text, "at "); ok {
		return p.instant(rest)
	}
	if !strings.HasPrefix(text, "+") && !strings.HasPrefix(text, "-") {
		return 0, fmt.Errorf("want a line that begins with at, + or -, got %q", text)
	}
	d, err := ParseSpan(strings.TrimPrefix(text, "+"))
	return p.after(p.now, d, err)
}

// instant reads a span since the start, or an RFC 3339 instant.
func (p *parser) instant(text string) (us int64, err error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		if us := t.UnixMicro(); us > 0 && t.Nanosecond()%1000 == 0 && t.Year() < 2200 {
			return us, nil
		}
		return 0, fmt.Errorf("want whole microseconds between 1970 and 2200, got %q", text)
	}
	d, err := ParseSpan(text)
	return p.after(p.story.Start, d, err)
}

func (p *parser) after(us int64, d time.Duration, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	if us += d.Microseconds(); d%time.Microsecond != 0 || us < 1 || us > 1<<53 {
		return 0, fmt.Errorf("want whole microseconds between 1970 and 2200, got %q", Span(d))
	}
	return us, nil
}

// split cuts a line into words and the text behind the arrow.
func split(line string) (words []string, answer string, err error) {
	rest := strings.TrimSpace(line)
	for rest != "" {
		var word string
		if rest[0] == '"' {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, "", fmt.Errorf("want a closed quotation, got %s", rest)
			}
			word, _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
		} else if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
			word, rest = rest[:i], rest[i:]
		} else {
			word, rest = rest, ""
		}
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if word == "->" {
			answer = rest
			break
		}
		words = append(words, word)
	}
	if len(words) == 0 {
		return nil, "", fmt.Errorf("want a request before the arrow")
	}
	return words, answer, nil
}

// ask reads a request: verb, key, number, options.
func (p *parser) ask(words []string, answer string) (Ask, error) {
	a := Ask{Line: p.line}
	r := &a.Request
	if len(words) < 2 {
		return a, fmt.Errorf("want a verb and a key, got %q", strings.Join(words, " "))
	}
	verb, ok := verbs[words[0]]
	if !ok {
		return a, fmt.Errorf("want a verb and a key, got %q", strings.Join(words, " "))
	}
	r.Verb, r.Key, r.Limit = verb, words[1], p.first
	words = words[2:]
	if verb != weir.Reset && verb != weir.Cancel {
		if len(words) == 0 {
			return a, fmt.Errorf("want a number of tokens after the key")
		}
		n, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return a, fmt.Errorf("want a number of tokens after the key, got %q", words[0])
		}
		r.N, words = n, words[1:]
	}
	for ; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return a, fmt.Errorf("want a value after %q", words[0])
		}
		if err := p.option(r, words[0], words[1]); err != nil {
			return a, err
		}
	}
	if r.Limit.IsZero() {
		return a, fmt.Errorf("want a limit line before the first request")
	}
	var err error
	a.Want, err = parseAnswer(answer, r)
	return a, err
}

func (p *parser) option(r *weir.Request, name, value string) (err error) {
	switch name {
	case "under":
		r.Limit, err = p.named(value)
	case "id":
		r.ID = value
	case "ttl":
		r.TTL, err = ParseSpan(value)
	case "charged":
		var us int64
		us, err = p.instant(value)
		r.At = time.UnixMicro(us)
	case "from":
		for _, n := range strings.Split(value, ",") {
			l, err := p.named(n)
			if err != nil {
				return err
			}
			r.From = append(r.From, l)
		}
	case "carry":
		c, ok := carries[value]
		if !ok {
			return fmt.Errorf("want carry usage, proportional, as-is, additive or reset, got %q", value)
		}
		r.Carry = c
	default:
		return fmt.Errorf("want under, id, ttl, charged, from or carry, got %q", name)
	}
	return err
}

func (p *parser) named(name string) (weir.Limit, error) {
	l, ok := p.limits[name]
	if !ok {
		return l, fmt.Errorf("want the name of a limit above, got %q", name)
	}
	return l, nil
}

// parseAnswer reads what is behind the arrow of r. Nothing is the zero Answer,
// which no store gives.
func parseAnswer(text string, r *weir.Request) (a Answer, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return a, nil
	}
	switch words[0] {
	case "ok":
		a.OK, a.Granted = true, usual(r)
	case "denied":
	case "error":
		if len(words) != 2 {
			return a, fmt.Errorf("want one word after error, got %q", text)
		}
		a.Err = words[1]
		return a, nil
	default:
		return a, fmt.Errorf("want ok, denied or error after the arrow, got %q", words[0])
	}
	for words = words[1:]; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return a, fmt.Errorf("want a value after %q", words[0])
		}
		if err := a.set(words[0], words[1]); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (a *Answer) set(name, value string) (err error) {
	n, span := &a.Granted, &a.Retry
	switch name {
	case "granted":
	case "remaining":
		n = &a.Remaining
	case "debt":
		n = &a.Debt
	case "retry":
		n = nil
	case "reset":
		n, span = nil, &a.Reset
	case "delay":
		n, span = nil, &a.Delay
	default:
		return fmt.Errorf("want granted, remaining, debt, retry, reset or delay, got %q", name)
	}
	if n == nil {
		*span, err = ParseSpan(value)
		return err
	}
	v, err := strconv.ParseUint(value, 10, 63)
	if err != nil || v > math.MaxInt64 {
		return fmt.Errorf("want %s and a number, got %q", name, value)
	}
	*n = int64(v)
	return nil
}

var verbs = func() map[string]weir.Verb {
	m := map[string]weir.Verb{}
	for v := weir.Take; v <= weir.Cancel; v++ {
		m[v.String()] = v
	}
	return m
}()

var carries = map[string]weir.Carry{
	"usage":        weir.CarryUsage,
	"proportional": weir.CarryProportional,
	"as-is":        weir.CarryAsIs,
	"additive":     weir.CarryAdditive,
	"reset":        weir.CarryReset,
}
