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
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/internal/bounds"
)

// invalid returns the error of a field.
func invalid(field string, value []byte, expected string) *problem.FieldError {
	return problem.Invalid(field, string(value), expected)
}

// parse parses a request body: one JSON object with the fields of the verb.
func parse(v weir.Verb, data []byte, cache *limitCache) (*apiRequest, error) {
	q := &apiRequest{verb: v, n: 1, cache: cache}
	seen, err := object(data, q.fields, q.set)
	if err != nil {
		return nil, err
	}
	return q, q.check(seen)
}

// parseBatch parses the body of /v1/batch.
func parseBatch(data []byte, cache *limitCache) (qs []*apiRequest, err error) {
	const known = `"requests", an array of requests`
	fields := func() string { return known }
	want := fmt.Sprintf("an array of 1 to %d requests, each an object with a \"verb\"", bounds.MaxBatch)
	seen, err := object(data, fields, func(name string, value json.RawMessage) error {
		if name != "requests" {
			return invalid(name, value, "a known field: "+known)
		}
		var list []json.RawMessage
		if value[0] != '[' || json.Unmarshal(value, &list) != nil || len(list) == 0 || len(list) > bounds.MaxBatch {
			return invalid(name, value, want)
		}
		for i, v := range list {
			q, err := parseAny(v, cache)
			if err != nil {
				return inBatch(i, err)
			}
			qs = append(qs, q)
		}
		return nil
	})
	if err == nil && len(seen) == 0 {
		err = invalid("requests", nil, want)
	}
	return qs, err
}

// parseAny parses a request that has a "verb".
func parseAny(data []byte, cache *limitCache) (*apiRequest, error) {
	const want = "one of take, take_up_to, peek, charge, return, reset, reserve, commit and cancel"
	q := &apiRequest{n: 1, cache: cache}
	verb := ""
	fields := func() string { return `"verb" and the fields of the verb` }
	seen, err := object(data, fields, func(name string, value json.RawMessage) (err error) {
		if name != "verb" {
			return q.set(name, value)
		}
		if verb, err = text(name, value, want); err != nil {
			return err
		}
		i := slices.IndexFunc(verbs[:], func(v weir.Verb) bool { return v.String() == verb })
		if i < 0 {
			return invalid(name, value, want)
		}
		q.verb = verbs[i]
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case verb == "":
		return nil, invalid("verb", nil, want)
	}
	return q, q.check(seen)
}

// inBatch adds the position in a batch to an error.
func inBatch(i int, err error) error {
	var f *problem.FieldError
	if !errors.As(err, &f) {
		return err
	}
	at := fmt.Sprintf("requests[%d]", i)
	if f.Field != "body" {
		at += "." + f.Field
	}
	return &problem.FieldError{Field: at, Value: f.Value, Expected: f.Expected}
}

// object parses a JSON object and calls set for each field. It returns the names; a name
// may occur once. Fields lists the known ones for errors.
func object(data []byte, fields func() string, set func(name string, value json.RawMessage) error) (seen []string, err error) {
	if !utf8.Valid(data) {
		return nil, invalid("body", data, "JSON in UTF-8")
	}
	var ms [maxScanned]member
	n, ok := scan(data, &ms)
	if !ok {
		return anyObject(data, fields, set)
	}
	seen = make([]string, 0, maxScanned)
	for _, m := range ms[:n] {
		seen = append(seen, m.name)
		if err := set(m.name, m.value); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// anyObject is object for all JSON.
func anyObject(data []byte, fields func() string, set func(name string, value json.RawMessage) error) (seen []string, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, invalid("body", data, "a JSON object with "+fields())
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, syntax(data, fields(), err)
		}
		name := t.(string) // a key of an object is a string
		if slices.Contains(seen, name) {
			return nil, invalid(name, []byte("two values"), "each field once")
		}
		seen = append(seen, name)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, syntax(data, fields(), err)
		}
		if err := set(name, value); err != nil {
			return nil, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, syntax(data, fields(), err)
	}
	if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
		return nil, invalid("body", rest, "nothing after the JSON object")
	}
	return seen, nil
}

func syntax(data []byte, fields string, err error) error {
	var s *json.SyntaxError
	at := len(data)
	if whole := json.Unmarshal(data, new(json.RawMessage)); whole != nil {
		err = whole // its offset is relative to data
	}
	if errors.As(err, &s) && !strings.HasPrefix(s.Error(), "unexpected end") {
		at = int(min(max(s.Offset-1, 0), int64(len(data))))
	}
	if at >= len(data) {
		return invalid("body", []byte("an incomplete object"), "a JSON object with "+fields)
	}
	return invalid("body", fmt.Appendf(nil, "%.40q at byte %d", data[at:], at+1), "JSON: "+err.Error())
}

// text parses a JSON string that is not empty. It refuses one with half of a surrogate
// pair: that would be read as U+FFFD, and different keys would become one.
func text(field string, value json.RawMessage, want string) (string, error) {
	var s string
	if len(value) > 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		s = string(value[1 : len(value)-1]) // without escapes, and UTF-8 as the body is
	} else if value[0] != '"' || json.Unmarshal(value, &s) != nil || s == "" {
		return "", invalid(field, value, want)
	}
	if strings.Count(s, "\uFFFD") != strings.Count(string(value), "\uFFFD")+strings.Count(strings.ToLower(string(value)), `\ufffd`) {
		return "", invalid(field, value, "a string without unpaired surrogates")
	}
	if len(s) > bounds.MaxKey {
		return "", invalid(field, fmt.Appendf(nil, "%d bytes", len(s)), fmt.Sprintf("at most %d bytes", bounds.MaxKey))
	}
	return s, nil
}

// whole parses a number of tokens.
func whole(field string, value json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 {
		return 0, invalid(field, value, fmt.Sprintf("a whole number from 0 to %d", int64(math.MaxInt64)))
	}
	return n, nil
}
