package httpapi

import (
	"encoding/json"
	"strconv"
)

// This file encodes responses as encoding/json does by their tags, without reflection.

// append appends s as a JSON number.
func (s seconds) append(b []byte) []byte {
	const µs = 1000
	n := (int64(s) + µs - 1) / µs
	b = strconv.AppendInt(b, n/1e6, 10)
	if frac := n % 1e6; frac != 0 {
		at := len(b)
		b = strconv.AppendInt(b, 1e6+frac, 10)
		b[at] = '.' // the leading 1, which keeps the zeros
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	return b
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // strings always marshal
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// append appends the members of v, without braces.
func (v *verdict) append(b []byte) []byte {
	b = append(b, `"ok":`...)
	b = strconv.AppendBool(b, v.OK)
	if v.Borrowed {
		b = append(b, `,"borrowed":true`...)
	}
	b = appendText(append(b, `,"limit":`...), v.Limit)
	if v.Capacity != nil {
		b = strconv.AppendInt(append(b, `,"capacity":`...), *v.Capacity, 10)
	}
	b = strconv.AppendInt(append(b, `,"granted":`...), v.Granted, 10)
	if v.Remaining != nil {
		b = strconv.AppendInt(append(b, `,"remaining":`...), *v.Remaining, 10)
	}
	if v.Debt != 0 {
		b = strconv.AppendInt(append(b, `,"debt":`...), v.Debt, 10)
	}
	if v.RetryAfter != nil {
		b = v.RetryAfter.append(append(b, `,"retry_after":`...))
	}
	if v.Never {
		b = append(b, `,"never":true`...)
	}
	b = v.ResetAfter.append(append(b, `,"reset_after":`...))
	if v.Delay != nil {
		b = v.Delay.append(append(b, `,"delay":`...))
	}
	return b
}

// appendLimits appends the member limits, if there are any.
func appendLimits(b []byte, vs []verdict) []byte {
	if len(vs) == 0 {
		return b
	}
	b = append(b, `,"limits":[`...)
	for i := range vs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(vs[i].append(append(b, '{')), '}')
	}
	return append(b, ']')
}

func appendPolicy(b []byte, name string) []byte {
	if name == "" {
		return b
	}
	return appendText(append(b, `,"policy":`...), name)
}

// append appends a response as a JSON object.
func (a *response) append(b []byte) []byte {
	b = appendPolicy(a.verdict.append(append(b, '{')), a.Policy)
	b = appendText(append(b, `,"at":`...), a.At)
	if a.Degraded != "" {
		b = appendText(append(b, `,"degraded":`...), string(a.Degraded))
	}
	if a.Replayed {
		b = append(b, `,"replayed":true`...)
	}
	b = appendLimits(b, a.Limits)
	if len(a.Results) > 0 {
		b = append(b, `,"results":[`...)
		for i := range a.Results {
			r := &a.Results[i]
			if i > 0 {
				b = append(b, ',')
			}
			b = appendPolicy(r.verdict.append(append(b, '{')), r.Policy)
			b = append(appendLimits(b, r.Limits), '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}
