package redisstore

import (
	"strings"

	"github.com/floodweir/weir/internal/rediskey"
)

const (
	reservationsSuffix = ":holds"
	deadlinesSuffix    = ":deadlines"
)

// stateName returns the name of the state of key under a limit, and its hash tag:
//
//	weir:1:{key}:limit       the tag is the key
//	weir:1:{tag}:key:limit   Config.Slot returned the tag
//
// An encoded limit has no ':', and an encoded key no brace, so two different (tag, key,
// limit) never have the same name.
func (s *Store) stateName(key, limit string) (name, tag string) {
	k := rediskey.EncodeKey(key)
	tag = k
	var b strings.Builder
	if s.config.Slot != nil {
		if t := s.config.Slot(key); t != "" {
			tag = rediskey.EncodeKey(t)
			b.Grow(len(s.prefix) + len(tag) + len(k) + len(limit) + 4)
			b.WriteString(s.prefix)
			b.WriteByte('{')
			b.WriteString(tag)
			b.WriteString("}:")
			b.WriteString(k)
			b.WriteByte(':')
			b.WriteString(limit)
			return b.String(), tag
		}
	}
	b.Grow(len(s.prefix) + len(k) + len(limit) + 3)
	b.WriteString(s.prefix)
	b.WriteByte('{')
	b.WriteString(k)
	b.WriteString("}:")
	b.WriteString(limit)
	return b.String(), tag
}
