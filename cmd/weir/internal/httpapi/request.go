package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
)

// An apiRequest is a parsed request body.
type apiRequest struct {
	verb   weir.Verb
	key    []string // one string, or the parts of a policy's key
	parts  bool     // key was an array
	limits []weir.Limit
	policy string
	state  string // the key of its states under the policy
	fixed  fixed  // the policy's decision without a limit; "" if it has limits
	n      int64
	hasN   bool
	id     string        // of a reservation
	ttl    time.Duration // of Reserve
	at     time.Time     // of Return

	cache *limitCache
}

// verbFields returns the fields of a verb beside those that all verbs have.
func verbFields(v weir.Verb) []string {
	switch v {
	case weir.Reset:
		return nil
	case weir.Return:
		return []string{"n", "at"}
	case weir.Reserve:
		return []string{"n", "id", "ttl"}
	case weir.Commit:
		return []string{"n", "id"}
	case weir.Cancel:
		return []string{"id"}
	}
	return []string{"n"}
}

// fields lists the fields of the request for errors.
func (q *apiRequest) fields() string {
	text := `"key", and "limit" or "limits" or "policy"`
	for _, f := range verbFields(q.verb) {
		text += `, "` + f + `"`
	}
	return text
}

// set parses a field. check validates that the verb has it.
func (q *apiRequest) set(name string, value json.RawMessage) (err error) {
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
		if value[0] != '[' || json.Unmarshal(value, &list) != nil || len(list) == 0 || len(list) > bounds.MaxBatch {
			return invalid(name, value, fmt.Sprintf(`an array of 1 to %d limits such as ["10/s burst 20", "5000/day"]`, bounds.MaxBatch))
		}
		for i, v := range list {
			if err := q.addLimit(fmt.Sprintf("limits[%d]", i), v); err != nil {
				return err
			}
		}
		return nil
	case "n":
		q.hasN = true
		q.n, err = whole(name, value)
		return err
	case "id":
		const want = "a string of 1 to 256 bytes"
		if q.id, err = text(name, value, want); err == nil && len(q.id) > bounds.MaxID {
			err = invalid(name, fmt.Appendf(nil, "%d bytes", len(q.id)), want)
		}
		return err
	case "ttl":
		q.ttl, err = duration(name, value)
		return err
	case "at":
		return q.setAt(value)
	}
	return invalid(name, value, "a known field: "+q.fields())
}

func (q *apiRequest) setKey(value json.RawMessage) error {
	const want = "a string of at least 1 byte"
	if value[0] != '[' {
		key, err := text("key", value, want)
		q.key = []string{key}
		return err
	}
	q.parts = true
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return invalid("key", value, "an array of strings, one for each part of the policy's key")
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

func (q *apiRequest) addLimit(field string, value json.RawMessage) error {
	const want = `a limit such as "10/s burst 20"`
	s, err := text(field, value, want)
	if err != nil {
		return err
	}
	l, err := q.cache.parse(s)
	if err != nil {
		return invalid(field, value, want+": "+err.Error())
	}
	q.limits = append(q.limits, l)
	return nil
}

func (q *apiRequest) setAt(value json.RawMessage) error {
	const want = `the "at" of a response, such as "2026-01-02T15:04:05.678901Z"`
	s, err := text("at", value, want)
	if err != nil {
		return err
	}
	if q.at, err = time.Parse(time.RFC3339Nano, s); err != nil || q.at.UnixMicro() < 1 {
		return invalid("at", value, want)
	}
	return nil
}

// duration parses a number of seconds with up to six decimals, without rounding.
func duration(field string, value json.RawMessage) (time.Duration, error) {
	want := fmt.Sprintf("a number of seconds from 0.000001 to %d, with up to 6 decimals", int64(bounds.MaxTTL/time.Second))
	s, frac, _ := strings.Cut(string(value), ".")
	if len(s) > 10 || len(frac) > 6 {
		return 0, invalid(field, value, want)
	}
	us, err := strconv.ParseInt(s+(frac + "000000")[:6], 10, 64)
	d := time.Duration(us) * time.Microsecond
	if err != nil || d < time.Microsecond || d > bounds.MaxTTL {
		return 0, invalid(field, value, want)
	}
	return d, nil
}

// check validates the fields together.
func (q *apiRequest) check(seen []string) error {
	rules := 0
	for _, name := range []string{"limit", "limits", "policy"} {
		if slices.Contains(seen, name) {
			rules++
		}
	}
	switch {
	case q.key == nil:
		return invalid("key", nil, "a string of at least 1 byte")
	case rules == 0:
		return invalid("limit", nil, `a limit such as "10/s burst 20", or "limits", or "policy"`)
	case rules > 1:
		return invalid("limit", []byte(strings.Join(seen, ", ")), `one of "limit", "limits" and "policy"`)
	case q.parts && q.policy == "":
		return invalid("key", []byte("an array"), "a string: only the key of a policy has parts")
	}
	for _, name := range []string{"n", "id", "ttl", "at"} {
		if slices.Contains(seen, name) && !slices.Contains(verbFields(q.verb), name) {
			return invalid(name, []byte("a value"), fmt.Sprintf("no %s: %s has none", name, q.verb))
		}
	}
	for _, need := range []struct{ name, want string }{
		{"id", "the ID of the reservation: a string of 1 to 256 bytes"},
		{"ttl", "the seconds after which an open reservation returns its tokens"},
	} {
		if slices.Contains(verbFields(q.verb), need.name) && !slices.Contains(seen, need.name) {
			return invalid(need.name, nil, need.want)
		}
	}
	switch {
	case q.verb == weir.Commit && !q.hasN:
		return invalid("n", nil, "the number of tokens used")
	case q.verb == weir.Reserve && q.hasN && q.n == 0:
		return invalid("n", []byte("0"), "at least 1 token to reserve")
	}
	return nil
}
