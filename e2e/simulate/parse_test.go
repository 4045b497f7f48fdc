package simulate

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

// An answer is the reply of the script to one request.
type answer struct {
	code, granted, balance, retry, reset, delay, now int64
	err                                              string
}

func parseAnswer(text string) (a answer) {
	if strings.HasPrefix(text, "!") {
		a.err = text[1:]
		return a
	}
	n := numbers(text)
	return answer{code: n[0], granted: n[1], balance: n[2], retry: n[3], reset: n[4], delay: n[5], now: n[6]}
}

func numbers(packed string) (ns []int64) {
	for b := []byte(packed); len(b) >= 8; b = b[8:] {
		ns = append(ns, int64(binary.LittleEndian.Uint64(b)))
	}
	return ns
}

// parse returns the requests of a call: see redisstore/lua/main.lua.
func (r *recorder) parse(cmd redisstore.Command) (mode int64, rs []weir.Request, err error) {
	n := numbers(cmd.Args[0])
	mode = n[2]
	for n = n[3:]; len(n) >= 5; n = n[5:] {
		key, limit, err := r.state(cmd, n[0], n[1])
		if err != nil {
			return 0, nil, err
		}
		q := weir.Request{Verb: weir.Verb(n[2]), Key: key, Limit: limit, N: n[3]}
		if n[4] != 0 {
			var rest []int64
			if err := json.Unmarshal([]byte(cmd.Args[n[4]-1]), &rest); err != nil {
				return 0, nil, err
			}
			for i := 7; i < len(rest); i += 4 {
				q.Carry = weir.Carry(rest[5])
				_, former, err := r.state(cmd, rest[i], rest[i+1])
				if err != nil {
					return 0, nil, err
				}
				q.From = append(q.From, former)
			}
			if rest[4] != 0 {
				q.ID = cmd.Args[rest[4]-1]
			} else if rest[3] != 0 {
				q.ID = fmt.Sprint(rest[3])
			}
			switch {
			case q.Verb == weir.Return && rest[1] != 0:
				q.At = time.UnixMicro(rest[1])
			case q.Verb == weir.Reserve:
				q.TTL = time.Duration(rest[2]) * time.Microsecond
			}
		}
		rs = append(rs, q)
	}
	return mode, rs, nil
}

// state returns the key and the limit of a state, by its index in KEYS and that of its rule in
// ARGV.
func (r *recorder) state(cmd redisstore.Command, key, rule int64) (string, weir.Limit, error) {
	stored := ""
	if rule < 0 {
		stored = cmd.Args[1-rule]
	}
	return r.named(cmd.Keys[key-1], stored)
}

// named returns the key and the limit of a state, by its name and the text of its rule.
func (r *recorder) named(name, stored string) (string, weir.Limit, error) {
	from, to := strings.IndexByte(name, '{'), strings.LastIndexByte(name, '}')
	limit, ok := r.limits[strings.TrimPrefix(name[to+1:], ":")+"\x00"+stored]
	if !ok {
		return "", weir.Limit{}, fmt.Errorf("unknown limit in %q with the rule %q", name, stored)
	}
	return name[from+1 : to], limit, nil
}

func (a *answer) text(q *weir.Request) string {
	switch {
	case q.Verb == verbRetract:
		return "retracted"
	case a.code == 2:
		return "unknown"
	case a.err != "":
		return a.err
	}
	return fmt.Sprintf("ok %v granted %d remaining %d retry %d reset %d", a.code == 1 || a.code == 4, a.granted, max(0, a.balance), a.retry, a.reset)
}

// refunds reports whether a call returns charges of a batch over several slots: a Return or a
// retract in a call of DoAll.
func refunds(cmd redisstore.Command) bool {
	if !strings.HasPrefix(cmd.Head[0], "EVAL") {
		return false
	}
	n := numbers(cmd.Args[0])
	if len(cmd.Args) == 1 || n[2] != modeAll {
		return false
	}
	for n = n[3:]; len(n) >= 5; n = n[5:] {
		if v := weir.Verb(n[2]); v != weir.Return && v != verbRetract {
			return false
		}
	}
	return true
}

// dropRefund returns the reply of a call that returns charges, without running it.
func dropRefund(cmd redisstore.Command) (items []string, ok bool) {
	if !refunds(cmd) {
		return nil, false
	}
	for range (len(cmd.Args[0]) - 24) / 40 {
		b := binary.LittleEndian.AppendUint64(nil, 1)
		items = append(items, string(append(b, make([]byte, 48)...)))
	}
	return items, true
}
