package edge_test

import (
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/redisstore"
)

// storePlan is a plan of limits alone, as plan.lua would have read it but for the
// policies.
type storePlan struct {
	Script    string          `json:"script"`
	Prefix    string          `json:"prefix"`
	Rules     []*storeRule    `json:"rules"`
	Calendars []storeCalendar `json:"calendars"`

	at map[string]int
}

type storeRule struct {
	Limit     string  `json:"limit"`
	Suffix    string  `json:"suffix"`
	Algorithm string  `json:"algorithm"`
	Params    []int64 `json:"params"`
	Capacity  int64   `json:"capacity"`
	Lease     int64   `json:"lease,omitempty"`
	Calendar  int     `json:"calendar,omitempty"`
}

type storeCalendar struct {
	Bounds []int64 `json:"bounds"`
	At     int     `json:"at"`
}

func newStorePlan(limits []weir.Limit, now time.Time) *storePlan {
	p := &storePlan{Script: redisstore.Script(), Prefix: outline.KeyPrefix(redisstore.DefaultPrefix), at: map[string]int{}}
	for _, l := range limits {
		p.add(l, now)
	}
	return p
}

// add puts a limit into the plan once and gives its place, from 1.
func (p *storePlan) add(l weir.Limit, now time.Time) int {
	if at := p.at[l.String()]; at > 0 {
		return at
	}
	r := redisstore.Outline(l, now.UnixMicro())
	out := &storeRule{Limit: l.String(), Suffix: r.Suffix, Algorithm: r.Algorithm, Params: r.Params, Capacity: l.Capacity()}
	if l.IsConcurrency() {
		out.Lease = l.Period().Microseconds()
	}
	if l.Period() == 0 { // a calendar
		p.Calendars = append(p.Calendars, storeBounds(l, now))
		out.Calendar = len(p.Calendars)
		clear(out.Params[2:7])
	}
	p.Rules = append(p.Rules, out)
	p.at[l.String()] = len(p.Rules)
	return len(p.Rules)
}

// storeBounds is a table of the windows of l from some before now to some after it.
func storeBounds(l weir.Limit, now time.Time) storeCalendar {
	c := storeCalendar{At: 3}
	at := now.UnixMicro()
	for range 2 { // two windows back and more
		at = redisstore.Outline(l, at).Params[2] - 1
	}
	for len(c.Bounds) < 24 {
		start, end := redisstore.Outline(l, at).Params[3], redisstore.Outline(l, at).Params[4]
		c.Bounds = append(c.Bounds, start/1e6)
		at = end
	}
	return c
}

// storeAsk is a weir.Request as Lua takes it. Texts that may be any bytes are in
// hexadecimal digits.
type storeAsk struct {
	Key   string `json:"key"`
	Rule  int    `json:"rule"`
	Verb  int    `json:"verb"`
	N     int64  `json:"n"`
	From  []int  `json:"from,omitempty"`
	Carry int    `json:"carry"`
	ID    string `json:"id,omitempty"`
	TTL   int64  `json:"ttl,omitempty"`
	At    int64  `json:"at,omitempty"`
}

func (p *storePlan) asks(rs []weir.Request) []storeAsk {
	out := make([]storeAsk, len(rs))
	for i, r := range rs {
		a := storeAsk{Key: hex.EncodeToString([]byte(r.Key)), Rule: p.at[r.Limit.String()], Verb: int(r.Verb), N: r.N, Carry: int(r.Carry),
			ID: hex.EncodeToString([]byte(r.ID)), TTL: r.TTL.Microseconds()}
		if !r.At.IsZero() {
			a.At = r.At.UnixMicro()
		}
		for _, f := range r.From {
			a.From = append(a.From, p.at[f.String()])
		}
		out[i] = a
	}
	return out
}

func storeJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// storeLua are functions that read what storeJSON wrote.
const storeLua = `
local cjson = require("cjson").new()
-- cjson prints 14 digits at most.
local function exact(answer)
  local out = {}
  for name, v in pairs(answer) do out[name] = type(v) == "number" and string.format("%.0f", v) or v end
  return out
end
local function unhex(text) return (text:gsub("..", function(h) return string.char(tonumber(h, 16)) end)) end
local function hex(text) return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
local function read_plan(plan)
  for _, r in ipairs(plan.rules) do
    if r.calendar then r.calendar = plan.calendars[r.calendar] end
  end
  return plan
end
local function read_asks(plan, asks)
  local out = {}
  for i, a in ipairs(asks) do
    local r = { key = unhex(a.key), rule = plan.rules[a.rule], verb = a.verb, n = a.n, carry = a.carry, ttl = a.ttl, at = a.at }
    if a.id then r.id = unhex(a.id) end
    if a.from then
      r.from = {}
      for k, f in ipairs(a.from) do r.from[k] = plan.rules[f] end
    end
    out[i] = r
  end
  return out
end
`
