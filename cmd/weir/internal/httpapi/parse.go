package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir"
)

// A question is a request body that was understood.
type question struct {
	key    []string // one text, or the parts of a policy's key
	parts  bool     // key was an array
	limits []weir.Limit
	policy string
	n      int64
	hasN   bool
}

// A fault says why a request body was refused. Value is shortened, for it is
// sent back.
type fault struct {
	field, value, expected string
}

// Error is the fault in one sentence.
func (f *fault) Error() string {
	return fmt.Sprintf("%s: got %s, want %s", f.field, f.value, f.expected)
}

const maxShown = 80

func refuse(field string, value []byte, expected string) *fault {
	shown := strings.ToValidUTF8(string(value), "\uFFFD")
	if len(shown) > maxShown {
		shown = strings.ToValidUTF8(shown[:maxShown], "") + "…"
	}
	if shown == "" {
		shown = "nothing"
	}
	return &fault{field, shown, expected}
}

const fields = `"key", "limit" or "limits" or "policy", and "n"`

// parse reads a request body: one JSON object with known fields, each once.
func parse(data []byte) (*question, error) {
	if !utf8.Valid(data) {
		return nil, refuse("body", data, "JSON in UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, refuse("body", data, "a JSON object with "+fields)
	}
	q := &question{n: 1}
	var seen []string
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, syntax(data, err)
		}
		name := t.(string) // a key of an object always is
		if slices.Contains(seen, name) {
			return nil, refuse(name, []byte("a second one"), "each field once")
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, syntax(data, err)
		}
		if err := q.set(name, value); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, syntax(data, err)
	}
	if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
		return nil, refuse("body", rest, "nothing after the JSON object")
	}
	return q, q.check(seen)
}

func syntax(data []byte, err error) error {
	var s *json.SyntaxError
	at := len(data)
	if whole := json.Unmarshal(data, new(json.RawMessage)); whole != nil {
		err = whole // whose offset is that in data
	}
	if errors.As(err, &s) && !strings.HasPrefix(s.Error(), "unexpected end") {
		at = int(min(max(s.Offset-1, 0), int64(len(data))))
	}
	if at >= len(data) {
		return refuse("body", []byte("an unfinished one"), "a JSON object with "+fields)
	}
	return refuse("body", fmt.Appendf(nil, "%.40q at byte %d", data[at:], at+1), "JSON: "+err.Error())
}

func (q *question) set(name string, value json.RawMessage) (err error) {
	switch name {
	case "key":
		return q.setKey(value)
	case "policy":
		q.policy, err = text(name, value, "the name of a policy")
		return err
	case "limit":
		return q.addLimit(name, value)
	case "limits":
		var list []json.RawMessage
		if value[0] != '[' || json.Unmarshal(value, &list) != nil || len(list) == 0 || len(list) > weir.MaxBatch {
			return refuse(name, value, fmt.Sprintf(`an array of 1 to %d limits such as ["10/s burst 20", "5000/day"]`, weir.MaxBatch))
		}
		for i, v := range list {
			if err := q.addLimit(fmt.Sprintf("limits[%d]", i), v); err != nil {
				return err
			}
		}
		return nil
	case "n":
		q.hasN = true
		q.n, err = strconv.ParseInt(string(value), 10, 64)
		if err != nil || q.n < 0 {
			return refuse(name, value, fmt.Sprintf("a whole number from 0 to %d", int64(math.MaxInt64)))
		}
		return nil
	}
	return refuse(name, value, "no such field; known are "+fields)
}

func (q *question) setKey(value json.RawMessage) error {
	const want = "a text of at least 1 byte"
	if value[0] != '[' {
		key, err := text("key", value, want)
		q.key = []string{key}
		return err
	}
	q.parts = true
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return refuse("key", value, "an array of texts, one for each part of the policy's key")
	}
	for i, v := range list {
		part, err := text(fmt.Sprintf("key[%d]", i), v, want)
		if err != nil {
			return err
		}
		q.key = append(q.key, part)
	}
	return nil
}

func (q *question) addLimit(field string, value json.RawMessage) error {
	const want = `a limit such as "10/s burst 20"`
	s, err := text(field, value, want)
	if err != nil {
		return err
	}
	l, err := weir.ParseLimit(s)
	if err != nil {
		return refuse(field, value, want+": "+err.Error())
	}
	q.limits = append(q.limits, l)
	return nil
}

// text reads a JSON string that is not empty. One that escapes half of a
// surrogate pair is refused: it would be read as U+FFFD, and different keys
// would become one.
func text(field string, value json.RawMessage, want string) (string, error) {
	var s string
	if value[0] != '"' || json.Unmarshal(value, &s) != nil || s == "" {
		return "", refuse(field, value, want)
	}
	if strings.Count(s, "\uFFFD") != strings.Count(string(value), "\uFFFD")+strings.Count(strings.ToLower(string(value)), `\ufffd`) {
		return "", refuse(field, value, "a text without half surrogate pairs")
	}
	if len(s) > weir.MaxKey {
		return "", refuse(field, fmt.Appendf(nil, "%d bytes", len(s)), fmt.Sprintf("at most %d bytes", weir.MaxKey))
	}
	return s, nil
}

// check looks at the fields together.
func (q *question) check(seen []string) error {
	rules := 0
	for _, name := range []string{"limit", "limits", "policy"} {
		if slices.Contains(seen, name) {
			rules++
		}
	}
	switch {
	case q.key == nil:
		return refuse("key", nil, "a text of at least 1 byte")
	case rules == 0:
		return refuse("limit", nil, `a limit such as "10/s burst 20", or "limits", or "policy"`)
	case rules > 1:
		return refuse("limit", []byte(strings.Join(seen, ", ")), `one of "limit", "limits" and "policy"`)
	case q.parts && q.policy == "":
		return refuse("key", []byte("an array"), "a text; only the key of a policy has parts")
	}
	return nil
}
