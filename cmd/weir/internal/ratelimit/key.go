package ratelimit

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxKey is the longest key, in bytes. A key is "|envoy", with which no key of a policy
// begins, and then the domain, and the key and the value of every entry, each as
//
//	|LENGTH:TEXT     a text and its length in bytes
//	|*LENGTH:TEXT    a pattern, for all values that match it
//
// as in "|envoy|9:messaging|9:to_number|10:2061111111". Because of the lengths, different
// descriptors have different keys. A longer key is "|envoy|#" and its SHA-256.
const maxKey = 256

const keyPrefix = "|envoy"

func key(domain string, steps []step) string {
	b := appendText(append(make([]byte, 0, 128), keyPrefix...), domain)
	for i := range steps {
		s := &steps[i]
		pattern := s.shared()
		if pattern == "" {
			b = appendText(appendText(b, s.Key), s.Value)
			continue
		}
		// If the key is a pattern too, all keys that match it share the state.
		b = appendText(b, s.d.Key)
		b = append(b, "|*"...)
		b = strconv.AppendInt(b, int64(len(pattern)), 10)
		b = append(append(b, ':'), pattern...)
	}
	return folded(b)
}

// Key returns the key of a descriptor without regard to the configuration, for limits that
// come with a request.
func (d *Domain) Key(entries []Entry) string {
	b := appendText(append(make([]byte, 0, 128), keyPrefix...), d.Name)
	for _, e := range entries {
		b = appendText(appendText(b, e.Key), e.Value)
	}
	return folded(b)
}

func appendText(b []byte, text string) []byte {
	b = append(b, '|')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	return append(append(b, ':'), text...)
}

func folded(b []byte) string {
	if len(b) <= maxKey {
		return string(b)
	}
	sum := sha256.Sum256(b)
	return keyPrefix + "|#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// maxLabel is the longest label with values of a request, in bytes.
const maxLabel = 200

// label returns the label of a match: that of the last descriptor, or one with values of the
// request.
func label(steps []step) string {
	last := steps[len(steps)-1].d
	valued := last.DetailedMetric
	for i := 0; i < len(steps) && !valued; i++ {
		valued = steps[i].valued(false)
	}
	if !valued {
		return last.label
	}
	var b strings.Builder
	for i := range steps {
		s := &steps[i]
		if i > 0 {
			b.WriteByte('.')
		}
		if s.valued(last.DetailedMetric) {
			b.WriteString(segment(s.Key, s.Value))
		} else {
			b.WriteString(segment(s.d.Key, s.d.Value))
		}
		if b.Len() > maxLabel {
			break
		}
	}
	return shortened(b.String())
}

// valued reports whether the label has the value of the request.
func (s *step) valued(detailed bool) bool {
	if s.shared() != "" {
		return false
	}
	return detailed || s.d.ValueToMetric && (s.wild || s.d.Value == "")
}

// segment returns the name of a descriptor in a label.
func segment(key, value string) string {
	if value == "" {
		return key
	}
	return key + "_" + value
}

func shortened(label string) string {
	if len(label) <= maxLabel {
		return label
	}
	cut := maxLabel - len("…")
	for cut > 0 && !utf8.RuneStart(label[cut]) {
		cut--
	}
	return label[:cut] + "…"
}
