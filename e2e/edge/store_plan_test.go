package edge_test

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/outline"
	"github.com/floodweir/weir/redisstore"
)

// storePlan is a plan of limits without policies, as plan.lua returns it.
type storePlan struct {
	Script string       `json:"script"`
	Prefix string       `json:"prefix"`
	Rules  []*storeRule `json:"rules"`

	at map[string]int
}

type storeRule struct {
	Limit     string  `json:"limit"`
	Suffix    string  `json:"suffix"`
	Stored    string  `json:"stored,omitempty"`
	Algorithm string  `json:"algorithm"`
	Params    []int64 `json:"params"`
	Capacity  int64   `json:"capacity"`
	Lease     int64   `json:"lease,omitempty"`
}

func newStorePlan(limits []weir.Limit) *storePlan {
	p := &storePlan{Script: redisstore.Script(), Prefix: outline.KeyPrefix(redisstore.DefaultPrefix), at: map[string]int{}}
	for _, l := range limits {
		p.add(l)
	}
	return p
}

func limitName(l weir.Limit) string { return l.Name() + " " + l.String() }

// add adds a limit once and returns its index, from 1.
func (p *storePlan) add(l weir.Limit) int {
	if at := p.at[limitName(l)]; at > 0 {
		return at
	}
	r := redisstore.Outline(l, 0)
	out := &storeRule{Limit: l.String(), Suffix: r.Suffix, Stored: r.Stored, Algorithm: r.Algorithm, Params: r.Params, Capacity: l.Capacity()}
	if l.IsConcurrency() {
		out.Lease = l.Period().Microseconds()
	}
	p.Rules = append(p.Rules, out)
	p.at[limitName(l)] = len(p.Rules)
	return len(p.Rules)
}

// A storeAsk is a weir.Request for Lua. Texts of arbitrary bytes are in hexadecimal digits.
type storeAsk struct {
	Key  string `json:"key"`
	Rule int    `json:"rule"`
	Verb int    `json:"verb"`
	N    int64  `json:"n"`
	ID   string `json:"id,omitempty"`
	TTL  int64  `json:"ttl,omitempty"`
}

func (p *storePlan) asks(rs []weir.Request) []storeAsk {
	out := make([]storeAsk, len(rs))
	for i, r := range rs {
		out[i] = storeAsk{
			Key: hex.EncodeToString([]byte(r.Key)), Rule: p.at[limitName(r.Limit)], Verb: int(r.Verb), N: r.N,
			ID: hex.EncodeToString([]byte(r.ID)), TTL: r.TTL.Microseconds(),
		}
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

// storeLua has functions that parse the output of storeJSON.
const storeLua = `
local cjson = require("cjson").new()
-- cjson prints 14 digits at most.
local function exact(answer)
  local out = {}
  for name, v in pairs(answer) do out[name] = type(v) == "number" and string.format("%.0f", v) or v end
  out.rule = nil
  return out
end
local function unhex(text) return (text:gsub("..", function(h) return string.char(tonumber(h, 16)) end)) end
local function hex(text) return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
local function read_plan(plan)
  local plans = require "weir.plan"
  plan.rules = assert(plans.rules{ format = plans.FORMAT, rules = plan.rules })
  return plan
end
local function read_asks(plan, asks)
  local out = {}
  for i, a in ipairs(asks) do
    local r = { key = unhex(a.key), rule = plan.rules[a.rule], verb = a.verb, n = a.n, ttl = a.ttl }
    if a.id then r.id = unhex(a.id) end
    out[i] = r
  end
  return out
end
`
