package story

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/floodweir/weir"
)

// text is the answer to r behind the arrow.
func (a Answer) text(r *weir.Request) string {
	if a.Err != "" {
		return "error " + a.Err
	}
	var b strings.Builder
	granted := int64(0)
	if b.WriteString("denied"); a.OK {
		b.Reset()
		b.WriteString("ok")
		granted = usual(r)
	}
	if a.Granted != granted {
		fmt.Fprintf(&b, " granted %d", a.Granted)
	}
	if a.Remaining != 0 {
		fmt.Fprintf(&b, " remaining %d", a.Remaining)
	}
	if a.Debt != 0 {
		fmt.Fprintf(&b, " debt %d", a.Debt)
	}
	for _, s := range []struct {
		name string
		d    time.Duration
	}{{"retry", a.Retry}, {"reset", a.Reset}, {"delay", a.Delay}} {
		if s.d != 0 {
			fmt.Fprintf(&b, " %s %s", s.name, Span(s.d))
		}
	}
	return b.String()
}

// String is the answer as the story writes one to a request of nothing.
func (a Answer) String() string { return a.text(&weir.Request{}) }

// Text is the answer to r as a story writes it.
func (a Answer) Text(r *weir.Request) string { return a.text(r) }

// Rewrite is the text of the story with the answers that a store gives.
func (s *Story) Rewrite(store weir.Store, setNow func(us int64)) string {
	heads, answers := map[int]string{}, map[int]string{}
	width := 0
	note := func(line int, answer string) {
		head, _, _ := cutArrow(s.lines[line-1])
		heads[line], answers[line] = head, answer
		width = max(width, len([]rune(head)))
	}
	for i := range s.Steps {
		st := &s.Steps[i]
		setNow(st.Now)
		whole, each := st.Do(store)
		if st.Batch {
			note(st.Line, Answer{OK: whole.OK, Err: whole.Err}.String())
		}
		for j := range st.Asks {
			a := &st.Asks[j]
			if each == nil { // a batch that got an error: its requests have no answers
				note(a.Line, "")
				continue
			}
			note(a.Line, each[j].text(&a.Request))
		}
	}
	lines := make([]string, len(s.lines))
	for i, line := range s.lines {
		lines[i] = strings.TrimRightFunc(line, unicode.IsSpace)
		if head, ok := heads[i+1]; ok && answers[i+1] != "" {
			lines[i] = head + strings.Repeat(" ", width-len([]rune(head))) + " -> " + answers[i+1]
		}
	}
	return strings.Join(lines, "\n")
}

// cutArrow is the part of a line before its arrow; quoted arrows are not arrows.
func cutArrow(line string) (head, tail string, ok bool) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case quoted && line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(line[i:], " -> "):
			return strings.TrimRightFunc(line[:i], unicode.IsSpace), line[i+4:], true
		}
	}
	return strings.TrimRightFunc(line, unicode.IsSpace), "", false
}

// Format writes steps as the text of a story with the wanted answers.
func Format(steps []Step) string {
	var b strings.Builder
	if len(steps) == 0 {
		return ""
	}
	names := map[[2]string]string{}
	limit := func(l weir.Limit) string {
		id := [2]string{l.String(), ""}
		if l.Spec().Named {
			id[1] = " named " + strconv.Quote(l.Name())
		}
		if _, ok := names[id]; !ok {
			names[id] = string(rune('a' + len(names)%26))
			if len(names) > 26 {
				names[id] = fmt.Sprintf("l%d", len(names))
			}
			fmt.Fprintf(&b, "limit %s%s: %s\n", names[id], id[1], id[0])
		}
		return names[id]
	}
	start := steps[0].Now
	fmt.Fprintf(&b, "start %s\n", time.UnixMicro(start).UTC().Format(time.RFC3339Nano))
	for i := range steps {
		for j := range steps[i].Asks {
			limit(steps[i].Asks[j].Request.Limit)
			for _, l := range steps[i].Asks[j].Request.From {
				limit(l)
			}
		}
	}
	for _, s := range steps {
		when := fmt.Sprintf("at %-12s ", Span(time.Duration(s.Now-start)*time.Microsecond))
		if s.Batch {
			fmt.Fprintf(&b, "%sall -> %s\n", when, Answer{OK: s.Want.OK, Err: s.Want.Err})
			when = "| "
		}
		for j := range s.Asks {
			a := &s.Asks[j]
			fmt.Fprintf(&b, "%s%s -> %s\n", when, tellRequest(&a.Request, start, limit), a.Want.text(&a.Request))
		}
	}
	return b.String()
}

func tellRequest(r *weir.Request, start int64, limit func(weir.Limit) string) string {
	words := []string{r.Verb.String(), quote(r.Key)}
	add := func(w ...string) { words = append(words, w...) }
	if r.Verb != weir.Reset && r.Verb != weir.Cancel {
		add(strconv.FormatInt(r.N, 10))
	}
	add("under", limit(r.Limit))
	if r.ID != "" {
		add("id", quote(r.ID))
	}
	if r.TTL != 0 {
		add("ttl", Span(r.TTL))
	}
	if !r.At.IsZero() {
		add("charged", Span(time.Duration(r.At.UnixMicro()-start)*time.Microsecond))
	}
	if len(r.From) > 0 {
		var from []string
		for _, l := range r.From {
			from = append(from, limit(l))
		}
		add("from", strings.Join(from, ","))
		for name, c := range carries {
			if c == r.Carry {
				add("carry", name)
			}
		}
	}
	return strings.Join(words, " ")
}

// quote is a word as a story writes it: bare if it can be.
func quote(s string) string {
	if q := strconv.Quote(s); s == "" || s == "->" || q != `"`+s+`"` || strings.ContainsFunc(s, unicode.IsSpace) {
		return q
	}
	return s
}
