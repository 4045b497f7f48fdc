package redismodel

import (
	"slices"
	"strconv"
	"strings"
)

// An Error is an error reply, such as "NOSCRIPT No matching script.".
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// A status is a reply such as +OK.
type status string

// do runs one command on the data at the server's frozen time. The reply is nil, an int64, a
// string, a status, an Error or a []any of them.
func (s *Server) do(args []string) any {
	if len(args) == 0 {
		return badSyntax
	}
	name := strings.ToUpper(args[0])
	c, ok := commands[name]
	switch {
	case !ok:
		return Error("ERR unknown command '" + args[0] + "'")
	case len(args) < c.least:
		return Error("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	}
	var v *value
	if c.kind != anything {
		if v = s.get(args[1]); v != nil && v.kind != c.kind {
			return wrongType
		}
	}
	return c.run(s, v, args)
}

const anything kind = 255

type command struct {
	least int // number of arguments, with the name
	kind  kind
	run   func(s *Server, v *value, args []string) any
}

var commands = map[string]command{
	"TIME":             {1, anything, runTime},
	"PING":             {1, anything, func(*Server, *value, []string) any { return status("PONG") }},
	"GET":              {2, isString, runGet},
	"MGET":             {2, anything, runMGet},
	"EXISTS":           {2, anything, runExists},
	"SET":              {4, anything, runSet},
	"DEL":              {2, anything, runDel},
	"PEXPIRE":          {3, anything, runPExpire},
	"HGET":             {3, isHash, runHGet},
	"HSET":             {4, isHash, runHSet},
	"HDEL":             {3, isHash, runHDel},
	"ZADD":             {4, isSet, runZAdd},
	"ZREM":             {3, isSet, runZRem},
	"ZCOUNT":           {4, isSet, runZCount},
	"ZRANGE":           {4, isSet, runZRange},
	"ZRANGEBYSCORE":    {4, isSet, runZRangeByScore},
	"ZREVRANGEBYSCORE": {4, isSet, runZRangeByScore},
	"ZREMRANGEBYSCORE": {4, isSet, runZRemRangeByScore},
}

func runTime(s *Server, _ *value, _ []string) any {
	return []any{strconv.FormatInt(s.frozen/1e6, 10), strconv.FormatInt(s.frozen%1e6, 10)}
}

func runGet(_ *Server, v *value, _ []string) any {
	if v == nil {
		return nil
	}
	return v.text
}

func runMGet(s *Server, _ *value, args []string) any {
	var texts []any
	for _, key := range args[1:] {
		if v := s.get(key); v != nil && v.kind == isString {
			texts = append(texts, v.text)
		} else {
			texts = append(texts, nil)
		}
	}
	return texts
}

func runExists(s *Server, _ *value, args []string) any {
	n := int64(0)
	for _, key := range args[1:] {
		if s.get(key) != nil {
			n++
		}
	}
	return n
}

// runSet is SET key value PX ms, or SET key value KEEPTTL for a key with a TTL: the script sets no
// key without one.
func runSet(s *Server, _ *value, args []string) any {
	if v := s.get(args[1]); len(args) == 4 && strings.EqualFold(args[3], "KEEPTTL") && v != nil && v.expiry > 0 {
		s.put(args[1], &value{kind: isString, text: args[2], expiry: v.expiry})
		return status("OK")
	}
	if len(args) != 5 || !strings.EqualFold(args[3], "PX") {
		return badSyntax
	}
	ms, err := strconv.ParseInt(args[4], 10, 64)
	if err != nil || ms <= 0 {
		return Error("ERR invalid expire time in 'set' command")
	}
	s.put(args[1], &value{kind: isString, text: args[2], expiry: s.frozen/1000 + ms})
	return status("OK")
}

func runDel(s *Server, _ *value, args []string) any {
	n := int64(0)
	for _, key := range args[1:] {
		if s.get(key) != nil {
			s.put(key, nil)
			n++
		}
	}
	return n
}

func runPExpire(s *Server, _ *value, args []string) any {
	ms, err := strconv.ParseInt(args[2], 10, 64)
	v := s.get(args[1])
	switch {
	case err != nil:
		return badNumber
	case v == nil:
		return int64(0)
	case ms <= 0:
		s.put(args[1], nil)
		return int64(1)
	}
	c := *v
	c.expiry = s.frozen/1000 + ms
	s.put(args[1], &c)
	return int64(1)
}

func runHGet(_ *Server, v *value, args []string) any {
	if v != nil {
		if i := v.find(args[2]); i >= 0 {
			return v.hash[i].text
		}
	}
	return nil
}

func runHSet(s *Server, v *value, args []string) any {
	if len(args)%2 != 0 {
		return badSyntax
	}
	var hash []field
	if v != nil {
		hash = slices.Clone(v.hash)
	}
	n := int64(0)
	for i := 2; i < len(args); i += 2 {
		at := slices.IndexFunc(hash, func(f field) bool { return f.name == args[i] })
		if at < 0 {
			hash = append(hash, field{args[i], args[i+1]})
			n++
		} else {
			hash[at].text = args[i+1]
		}
	}
	s.put(args[1], v.withHash(hash))
	return n
}

func runHDel(s *Server, v *value, args []string) any {
	if v == nil {
		return int64(0)
	}
	hash := slices.DeleteFunc(slices.Clone(v.hash), func(f field) bool { return slices.Contains(args[2:], f.name) })
	n := len(v.hash) - len(hash)
	s.shrink(args[1], v.withHash(hash), n, len(hash))
	return int64(n)
}

func runZAdd(s *Server, v *value, args []string) any {
	if len(args)%2 != 0 {
		return badSyntax
	}
	var set []member
	if v != nil {
		set = slices.Clone(v.zset)
	}
	n := int64(0)
	for i := 2; i < len(args); i += 2 {
		f, err := strconv.ParseFloat(args[i], 64)
		if err != nil {
			return Error("ERR value is not a valid float")
		}
		m := member{f, args[i+1]}
		old := len(set)
		set = slices.DeleteFunc(set, func(o member) bool { return o.name == m.name })
		if len(set) == old {
			n++
		}
		at, _ := slices.BinarySearchFunc(set, m, member.compare)
		set = slices.Insert(set, at, m)
	}
	s.put(args[1], v.withSet(set))
	return n
}

func runZRem(s *Server, v *value, args []string) any {
	if v == nil {
		return int64(0)
	}
	set := slices.DeleteFunc(slices.Clone(v.zset), func(m member) bool { return slices.Contains(args[2:], m.name) })
	n := len(v.zset) - len(set)
	s.shrink(args[1], v.withSet(set), n, len(set))
	return int64(n)
}

func runZRemRangeByScore(s *Server, v *value, args []string) any {
	found, err := v.scores(args[2], args[3])
	if err != nil || len(found) == 0 {
		return errOr(err, int64(0))
	}
	set := slices.DeleteFunc(slices.Clone(v.zset), func(m member) bool { return slices.Contains(found, m) })
	s.shrink(args[1], v.withSet(set), len(found), len(set))
	return int64(len(found))
}

func runZCount(_ *Server, v *value, args []string) any {
	found, err := v.scores(args[2], args[3])
	return errOr(err, int64(len(found)))
}

// scores returns the members between two bounds.
func (v *value) scores(min, max string) ([]member, error) {
	low, err := parseBound(min)
	if err != nil {
		return nil, err
	}
	high, err := parseBound(max)
	if err != nil || v == nil {
		return nil, err
	}
	return v.between(low, high), nil
}

func errOr(err error, reply any) any {
	if err != nil {
		return err
	}
	return reply
}

// runZRange is ZRANGE by index.
func runZRange(_ *Server, v *value, args []string) any {
	from, err := strconv.Atoi(args[2])
	to, err2 := strconv.Atoi(args[3])
	if err != nil || err2 != nil {
		return badNumber
	}
	if v == nil {
		return []any{}
	}
	n := len(v.zset)
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to += n
	}
	if to = min(to, n-1); from > to {
		return []any{}
	}
	return list(v.zset[from:to+1], len(args) > 4)
}

func runZRangeByScore(_ *Server, v *value, args []string) any {
	reverse := strings.EqualFold(args[0], "ZREVRANGEBYSCORE")
	low, high := args[2], args[3]
	if reverse {
		low, high = high, low
	}
	found, err := v.scores(low, high)
	if err != nil {
		return err
	}
	found = slices.Clone(found)
	if reverse {
		slices.Reverse(found)
	}
	withScores := false
	for i := 4; i < len(args); i++ {
		switch {
		case strings.EqualFold(args[i], "WITHSCORES"):
			withScores = true
		case strings.EqualFold(args[i], "LIMIT") && i+2 < len(args):
			from, err := strconv.Atoi(args[i+1])
			count, err2 := strconv.Atoi(args[i+2])
			if err != nil || err2 != nil {
				return badNumber
			}
			found = found[min(from, len(found)):]
			if count >= 0 {
				found = found[:min(count, len(found))]
			}
			i += 2
		default:
			return badSyntax
		}
	}
	return list(found, withScores)
}

func list(ms []member, withScores bool) []any {
	out := []any{}
	for _, m := range ms {
		out = append(out, m.name)
		if withScores {
			out = append(out, number(m.score))
		}
	}
	return out
}
