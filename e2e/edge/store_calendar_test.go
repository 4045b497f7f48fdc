package edge_test

import (
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/redisstore"
)

const storeCalendarLua = storeLua + `
local call = require "weir.call"
local input = cjson.decode(ngx.req.get_body_data())
local plan = read_plan(input.plan)
local out = {}
for i, c in ipairs(input.cases) do
  local keys, args = call.build({ { key = "k", rule = plan.rules[c.rule], verb = 0, n = 1 } }, 0, plan.prefix, c.now)
  out[i] = keys and hex(args[3]) or "error: " .. args
end
ngx.print(cjson.encode(out))
`

type storeInstant struct {
	Rule int   `json:"rule"`
	Now  int64 `json:"now"`
}

// TestStoreCalendar: the params of a calendar are those of Go at any instant that its
// plan has windows for, to the µs at which they change, and an error at any other.
func TestStoreCalendar(t *testing.T) {
	var limits []weir.Limit
	for _, text := range []string{"5/day calendar Europe/Berlin", "5/day calendar Pacific/Apia", "9/week calendar America/Sao_Paulo", "9/month calendar UTC", "9/year calendar Asia/Tokyo"} {
		limits = append(limits, weir.MustLimit(text))
	}
	now := time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC) // a clock changes within the table
	plan := newStorePlan(limits, now)
	g := rand.New(rand.NewPCG(7, 8))
	var cases []storeInstant
	var want []string
	for i, l := range limits {
		bounds := plan.Calendars[i].Bounds
		inside := func(at int64) {
			r := redisstore.Outline(l, at)
			b := make([]byte, 0, 72)
			for _, p := range r.Params {
				for k := range 8 {
					b = append(b, byte(p>>(8*k)))
				}
			}
			cases, want = append(cases, storeInstant{i + 1, at}), append(want, hex.EncodeToString(b))
		}
		outside := func(at int64) { cases, want = append(cases, storeInstant{i + 1, at}), append(want, "error") }
		for k, b := range bounds {
			us := b * 1e6
			switch {
			case k == 0:
				outside(us - 1)
				outside(us)
			case k+4 <= len(bounds)-1:
				if k > 1 {
					inside(us - 1)
				}
				inside(us)
				inside(us + g.Int64N(bounds[k+1]*1e6-us))
			case k+3 == len(bounds)-1: // the last window that has two after it
				inside(us)
				inside(bounds[k+1]*1e6 - 1)
			default:
				outside(us)
			}
		}
		outside(0)
		outside(1 << 52)
		g.Shuffle(len(cases), func(a, b int) { cases[a], cases[b], want[a], want[b] = cases[b], cases[a], want[b], want[a] })
	}
	var got []string
	text := nginxtest.Lua(t, storeCalendarLua, storeJSON(t, map[string]any{"plan": plan, "cases": cases}))
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != len(want) {
		t.Fatalf("%v: %.300s", err, text)
	}
	for i := range want {
		if got[i] != want[i] && !(want[i] == "error" && strings.Contains(got[i], "the plan has no windows for")) {
			t.Errorf("%s at %v: %s, want %s", limits[cases[i].Rule-1], time.UnixMicro(cases[i].Now), got[i], want[i])
		}
	}
}

const storeInvalid = storeLua + `
local call = require "weir.call"
local rule = { limit = "1/s", suffix = "1/s", algorithm = "token_bucket", params = { 1 }, capacity = 1 }
local huge = string.rep("k", 65537)
local cases = {
  { "limit", { key = "k", verb = 0, n = 1 } },
  { "key", { rule = rule, verb = 0, n = 1 } },
  { "key", { rule = rule, key = "", verb = 0, n = 1 } },
  { "key", { rule = rule, key = huge, verb = 0, n = 1 } },
  { "key", { rule = rule, key = 7, verb = 0, n = 1 } },
  { "cost", { rule = rule, key = "k", verb = 0 } },
  { "cost", { rule = rule, key = "k", verb = 0, n = -1 } },
  { "cost", { rule = rule, key = "k", verb = 0, n = 0.5 } },
  { "cost", { rule = rule, key = "k", verb = 0, n = 0/0 } },
  { "cost", { rule = rule, key = "k", verb = 0, n = 1/0 } },
  { "cost", { rule = rule, key = "k", verb = 0, n = 2^63 } },
  { "cost", { rule = rule, key = "k", verb = 0, n = "1" } },
  { "verb", { rule = rule, key = "k", n = 1 } },
  { "verb", { rule = rule, key = "k", verb = 9, n = 1 } },
  { "verb", { rule = rule, key = "k", verb = -1, n = 1 } },
  { "carry", { rule = rule, key = "k", verb = 0, n = 1, carry = 4 } },
  { "at", { rule = rule, key = "k", verb = 4, n = 1, at = 1.5 } },
  { "id", { rule = rule, key = "k", verb = 7, n = 1 } },
  { "id", { rule = rule, key = "k", verb = 8, n = 1, id = "" } },
  { "id", { rule = rule, key = "k", verb = 6, n = 1, ttl = 5, id = string.rep("i", 257) } },
  { "ttl", { rule = rule, key = "k", verb = 6, n = 1, id = "i" } },
  { "ttl", { rule = rule, key = "k", verb = 6, n = 1, id = "i", ttl = 0 } },
  { "ttl", { rule = rule, key = "k", verb = 6, n = 1, id = "i", ttl = 0/0 } },
  { "ttl", { rule = rule, key = "k", verb = 6, n = 1, id = "i", ttl = 31 * 24 * 3600 * 1e6 } },
  { "cost", { rule = rule, key = "k", verb = 6, n = 0, id = "i", ttl = 1 } },
}
for i, c in ipairs(cases) do
  local keys, err = call.build({ c[2] }, 0, "weir:1:", 1)
  if keys or not err:find("weir: " .. c[1] .. ":", 1, true) then ngx.say(i, ": want a problem of ", c[1], ", got ", err) end
end
local many = {}
for i = 1, 1024 do many[i] = { rule = rule, key = "k" .. i, verb = 0, n = 1 } end
if not call.build(many, 0, "weir:1:", 1) then ngx.say("1024 requests are refused") end
many[1025] = many[1]
local keys, err = call.build(many, 0, "weir:1:", 1)
if keys or not err:find("at most 1024") then ngx.say("1025 requests: ", err) end
ngx.say("done")
`

// TestStoreInvalid: what no store would decide is refused before anything is sent.
func TestStoreInvalid(t *testing.T) {
	if got := nginxtest.Lua(t, storeInvalid, ""); got != "done\n" {
		t.Error(got)
	}
}
