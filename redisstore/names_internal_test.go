package redisstore

import (
	"strings"
	"testing"

	"github.com/floodweir/weir/internal/rediskey"
)

func TestStateName(t *testing.T) {
	byTenant := func(key string) string {
		tenant, _, found := strings.Cut(key, "/")
		if !found {
			return ""
		}
		return tenant
	}
	for _, c := range []struct {
		key, name string
		slot      func(string) string
	}{
		{"user:42", "weir:1:{user:42}:10/s", nil},
		{"a{b}c", "weir:1:{a%7Bb%7Dc}:10/s", nil},
		{"policy\x00tenant user", "weir:1:{policy%00tenant+user}:10/s", nil},
		{"100%+\r\n", "weir:1:{100%25%2B%0D%0A}:10/s", nil},
		{"é😀", "weir:1:{%C3%A9%F0%9F%98%80}:10/s", nil},
		{strings.Repeat("x", 100), "weir:1:{" + strings.Repeat("x", 100) + "}:10/s", nil},
		{strings.Repeat("x", 101), "", nil},
		{strings.Repeat("{", 40), "", nil},
		{"acme/42", "weir:1:{acme}:acme/42:10/s", byTenant},
		{"{x}/42", "weir:1:{%7Bx%7D}:%7Bx%7D/42:10/s", byTenant},
		{"alone", "weir:1:{alone}:10/s", byTenant},
	} {
		s := &Store{prefix: "weir:1:", config: Config{Slot: c.slot}}
		name, tag := s.stateName(c.key, "10/s")
		hashed := strings.Contains(name, "{#")
		switch {
		case hashed != (len(rediskey.Encode(c.key, true)) > rediskey.Longest):
			t.Errorf("stateName(%.20q) = %q", c.key, name)
		case hashed && len(name) != len("weir:1:{#}:10/s")+64:
			t.Errorf("stateName(%.20q) = %q, want a SHA-256 in it", c.key, name)
		case !hashed && name != c.name:
			t.Errorf("stateName(%q) = %q, want %q", c.key, name, c.name)
		case redisTag(name) != tag:
			t.Errorf("stateName(%q) = %q with the tag %q, Redis takes %q", c.key, name, tag, redisTag(name))
		}
	}
}

// redisTag returns the part of a name that Redis Cluster hashes.
func redisTag(name string) string {
	if _, rest, ok := strings.Cut(name, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return name
}

// FuzzStateName checks that different keys or limits have different names, and that the tag
// of a name is that of its key.
func FuzzStateName(f *testing.F) {
	for _, k := range []string{"a", "", "{", "}", "{a}", ":", "%", "+", "#", "#ab", " ", "\x00", "é", strings.Repeat("a", 200)} {
		f.Add(k, "a", "x", "y")
		f.Add("a:", k, "", "a")
	}
	f.Fuzz(func(t *testing.T, key1, key2, tag1, tag2 string) {
		tagged := map[string]string{key1: tag1, key2: tag2}
		for _, slot := range []func(string) string{nil, func(key string) string { return tagged[key] }} {
			s := &Store{prefix: "weir:1:", config: Config{Slot: slot}}
			seen := map[string]string{}
			for _, key := range []string{key1, key2} {
				if key == "" {
					continue
				}
				for _, limit := range []string{"10/s", "10/s+burst+20"} {
					name, tag := s.stateName(key, limit)
					if redisTag(name) != tag {
						t.Fatalf("stateName(%q) = %q with the tag %q", key, name, tag)
					}
					for _, full := range []string{name, name + reservationsSuffix, name + deadlinesSuffix} {
						id := key + "\x00" + limit + "\x00" + full[len(name):]
						if was, ok := seen[full]; ok && was != id {
							t.Fatalf("%q is the name of %q and of %q", full, was, id)
						}
						seen[full] = id
						if strings.ContainsAny(full, " \r\n\x00\"'\\") || len(full) > 2*rediskey.Longest+100 {
							t.Fatalf("name %q", full)
						}
					}
				}
			}
		}
	})
}
