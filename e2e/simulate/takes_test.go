package simulate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
)

// ranTakes records a call of redisstore/lua/takes.lua. It computes the decisions from the states in
// the reply, one group after the other.
func (r *recorder) ranTakes(s *shard, server *redismodel.Server, node int, cmd redisstore.Command, items []string) error {
	if len(items) != 1 {
		return errors.New("not one reply")
	}
	end := []byte(items[0])
	now, admitted, wrong := int64(binary.LittleEndian.Uint64(end)), binary.LittleEndian.Uint64(end[8:]), 2*int(binary.LittleEndian.Uint16(end[16:]))
	if int64(admitted) == -1 {
		return nil // the store asks again
	}
	items = strings.Split(string(end[18+wrong:]), "\n")
	end = end[18 : 18+wrong]
	if len(items) != len(cmd.Keys) {
		return errors.New("not one state for each key")
	}
	states := make([][]int64, len(cmd.Keys))
	b := []byte(cmd.Args[0])
	b = b[20 : binary.LittleEndian.Uint32(b[16:])-1]
	for index := 0; len(b) > 0; index++ {
		size, times := max(1, int(binary.LittleEndian.Uint16(b))), int(binary.LittleEndian.Uint16(b[2:]))
		takings := b[4 : 4+14*size]
		b = b[4+14*size:]
		if len(end) > 0 && int(binary.LittleEndian.Uint16(end)) == index {
			end = end[2:]
			continue // the store asks again
		}
		for range times {
			ok, err := r.took(s, server, node, cmd, items, takings, states, now)
			if err != nil {
				return err
			}
			if ok {
				admitted--
			}
		}
	}
	if admitted != 0 {
		r.violate("the script admitted %d groups more than its states do", int64(admitted))
	}
	return nil
}

// took records one group of a call of takes.lua. It reports whether it was admitted.
func (r *recorder) took(s *shard, server *redismodel.Server, node int, cmd redisstore.Command, items []string, takings []byte, states [][]int64, now int64) (bool, error) {
	var rs []weir.Request
	var answers []string
	after, ok := map[int][]int64{}, true
	for ; len(takings) > 0; takings = takings[14:] {
		key, rule, n := int(binary.LittleEndian.Uint16(takings)), int(binary.LittleEndian.Uint32(takings[2:])), int64(binary.LittleEndian.Uint64(takings[6:]))
		stored, _, _ := strings.Cut(cmd.Args[0][rule-1+40:], "\x00") // after five numbers
		name, limit, err := r.named(cmd.Keys[key-1], strings.Trim(stored, `,"]`))
		if err != nil {
			return false, err
		}
		if states[key-1] == nil && items[key-1] != "" {
			var words []any
			if err := json.Unmarshal([]byte(items[key-1]), &words); err != nil {
				return false, err
			}
			states[key-1] = []int64{int64(words[0].(float64)), int64(words[1].(float64))}
		}
		q := weir.Request{Verb: weir.Take, Key: name, Limit: limit, N: n}
		state, d := limit.Spec().Rule.Do(slices.Clone(states[key-1]), algo.Ask{Op: algo.Take, Now: now, N: n})
		code, retry := int64(0), d.Retry
		if d.OK {
			code = 1
		} else if retry == algo.Never {
			retry = -1
		}
		b := []byte(nil)
		for _, v := range []int64{code, d.Granted, d.Balance, retry, d.Reset, d.Delay, now} {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		rs, answers, after[key-1], ok = append(rs, q), append(answers, string(b)), state, ok && d.OK
	}
	mode := int64(modeEach)
	if len(rs) > 1 {
		mode = modeAll
	}
	r.record(s, server, node, slotOf(cmd.Keys[0]), mode, rs, answers)
	if ok {
		for at, state := range after {
			states[at] = state
		}
	}
	return ok, nil
}
