package simulate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
)

// ranTakes records a call of redisstore/lua/takes.lua. It computes the decisions from the states in
// the reply, one group after the other.
func (r *recorder) ranTakes(s *shard, server *redismodel.Server, node int, cmd redisstore.Command, items []string) error {
	if len(items) != len(cmd.Keys)+1 {
		return errors.New("not one reply for each key")
	}
	end := []byte(items[len(items)-1])
	now, admitted, end := int64(binary.LittleEndian.Uint64(end)), binary.LittleEndian.Uint64(end[8:]), end[16:]
	states := make([][]int64, len(cmd.Keys))
	for index, b := 0, []byte(cmd.Args[0][16:]); len(b) > 0; index++ {
		size, times := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
		takings := b[4 : 4+12*size]
		b = b[4+12*size:]
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
	for ; len(takings) > 0; takings = takings[12:] {
		key, rule, n := int(binary.LittleEndian.Uint16(takings)), int(binary.LittleEndian.Uint16(takings[2:])), int64(binary.LittleEndian.Uint64(takings[4:]))
		name, limit, err := r.named(cmd.Keys[key-1], cmd.Args[rule])
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
