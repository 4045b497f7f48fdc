package redismodel

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A value is the value of a key. It is never changed: a write replaces it, so a replica and
// a snapshot can share it.
type value struct {
	kind   kind
	text   string
	hash   []field  // in the order of the first write
	zset   []member // by score, then by name
	expiry int64    // ms since the epoch; 0: none
}

type kind uint8

const (
	isString kind = iota
	isHash
	isSet
)

type field struct{ name, text string }

type member struct {
	score float64
	name  string
}

func (m member) compare(o member) int {
	return cmp.Or(cmp.Compare(m.score, o.score), strings.Compare(m.name, o.name))
}

// The errors of commands.
const (
	wrongType = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	badSyntax = Error("ERR syntax error")
	badNumber = Error("ERR value is not an integer or out of range")
	badFloat  = Error("ERR min or max is not a float")
)

// withHash returns a hash with the expiry of v.
func (v *value) withHash(hash []field) *value {
	c := &value{kind: isHash, hash: hash}
	if v != nil {
		c.expiry = v.expiry
	}
	return c
}

// withSet returns a sorted set with the expiry of v.
func (v *value) withSet(set []member) *value {
	c := &value{kind: isSet, zset: set}
	if v != nil {
		c.expiry = v.expiry
	}
	return c
}

// find returns the index of a field or member by its name, or -1.
func (v *value) find(name string) int {
	if v.kind == isHash {
		return slices.IndexFunc(v.hash, func(f field) bool { return f.name == name })
	}
	return slices.IndexFunc(v.zset, func(m member) bool { return m.name == name })
}

// A bound is one end of a range of scores.
type bound struct {
	score float64
	open  bool // the score itself is outside
}

func parseBound(text string) (bound, error) {
	b := bound{}
	text, b.open = strings.CutPrefix(text, "(")
	switch text {
	case "-inf":
		b.score = math.Inf(-1)
	case "+inf", "inf":
		b.score = math.Inf(1)
	default:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return b, badFloat
		}
		b.score = f
	}
	return b, nil
}

// between returns the members with scores from low to high.
func (v *value) between(low, high bound) []member {
	from := 0
	for from < len(v.zset) && (v.zset[from].score < low.score || low.open && v.zset[from].score == low.score) {
		from++
	}
	to := from
	for to < len(v.zset) && (v.zset[to].score < high.score || !high.open && v.zset[to].score == high.score) {
		to++
	}
	return v.zset[from:to]
}

// number returns the text of a number as Redis writes it.
func number(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e17 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}
