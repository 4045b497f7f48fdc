package edge_test

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

var (
	questionsSeed  = flag.Uint64("questions-seed", 1, "of what the tests of questions make up")
	questionsWires = flag.Int("questions-wires", 4000, "requests on a connection that are made up")
	questionsSets  = flag.Int("questions-sets", 24, "sets of policies that are made up")
)

// TestQuestions: Lua asks what Go asks, to the byte, of policies and requests made up
// at random, also after the policies have changed several times.
func TestQuestions(t *testing.T) {
	weir := programtest.Weir(t)
	d := questionsDice{rand.New(rand.NewPCG(*questionsSeed, 0))}
	s := startQuestions(t)
	var asked, faults, followed, hashed, ruled, zoned int
	for set := range *questionsSets {
		files := d.generations(t)
		var requests []questionsRequest
		for range 200 {
			requests = append(requests, d.request())
		}
		got := s.ask(t, plansOf(t, weir, files), requests)
		want := questionsOfGo(setOf(t, files), requests)
		for i := range requests {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("set %d, request %d %+q:\nnginx asks %+v\n  weir asks %+v\nof %s", set, i, requests[i], got[i], want[i], files[len(files)-1])
			}
			for _, a := range want[i].Asks {
				asked++
				if a.Fault {
					faults++
				}
				if len(a.Requests[0].From) > 0 {
					followed++
				}
				if strings.Contains(a.Key, "~zone|") {
					zoned++
				}
				if strings.Contains(a.Key, "|#") {
					hashed++
				}
				if strings.HasPrefix(a.Requests[len(a.Requests)-1].Limit, "1000/s") {
					ruled++
				}
			}
		}
	}
	t.Logf("%d sets, %d requests: %d asks, of which %d with a fault, %d of limits that follow others, %d under a hash, %d by an override, %d of a zone",
		*questionsSets, *questionsSets*200, asked, faults, followed, hashed, ruled, zoned)
	if faults == 0 || followed == 0 || hashed == 0 || ruled == 0 || zoned == 0 {
		t.Error("want some of each")
	}
}

// generations are files of policies, each of which takes the place of the one before it.
func (d questionsDice) generations(t *testing.T) (files []string) {
	t.Helper()
	var policies []map[string]any
	for n := 0; len(policies) < 12; n++ {
		if n > 1000 {
			t.Fatal("hardly a policy is good")
		}
		p := d.policy(fmt.Sprintf("p%d", len(policies)))
		if _, err := weirfile.Parse("made up", questionsFile(append(policies, p)...)); err == nil {
			policies = append(policies, p)
		}
	}
	for range 1 + d.IntN(7) {
		files = append(files, string(questionsFile(policies...)))
		for i, p := range policies {
			next := map[string]any{}
			for k, v := range p {
				next[k] = v
			}
			switch d.IntN(5) {
			case 0, 1:
				if zone, ok := next["nginx"].(map[string]any); ok {
					next["nginx"] = map[string]any{"zone": d.one("z", "y"), "rate": zone["rate"], "burst": d.IntN(9)}
					break
				}
				next["limits"] = append(d.some(2, questionsLimits...), d.one(questionsLimits...))
			case 2:
				next["overrides"] = d.overrides(p["key"].([]string))
			case 3:
				next["key"] = d.policy("x")["key"]
				delete(next, "overrides")
			}
			policies[i] = next
			if _, err := weirfile.Parse("made up", questionsFile(policies...)); err != nil {
				policies[i] = p
			}
		}
	}
	return files
}

func questionsFile(policies ...map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"store": "redis://127.0.0.1:6379", "policies": policies})
	if err != nil {
		panic(err)
	}
	return text
}

// setOf is the policies of the last file, which follow those of the files before it.
func setOf(t *testing.T, files []string) *policy.Set {
	t.Helper()
	var set *policy.Set
	for _, text := range files {
		f, err := weirfile.Parse("made up", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		set = f.Policies.WithPrevious(set)
	}
	return set
}

// plansOf are the plans of files, as weir edge nginx makes them.
func plansOf(t *testing.T, weir string, files []string) (plans []string) {
	t.Helper()
	for i, text := range files {
		file := filepath.Join(t.TempDir(), strconv.Itoa(i)+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		plans = append(plans, planIn(t, edgeConf(t, weir, file)))
	}
	return plans
}

var questionsEscape = regexp.MustCompile(`\\(\d{3})`)

// planIn is the plan in a configuration.
func planIn(t *testing.T, conf string) string {
	t.Helper()
	_, text, _ := strings.Cut(conf, "}, table.concat{\n")
	text, _, ok := strings.Cut(text, "  })\n")
	if !ok {
		t.Fatalf("no plan in\n%.2000s", conf)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "'"), "',")
		b.WriteString(questionsEscape.ReplaceAllStringFunc(line, func(s string) string {
			n, _ := strconv.Atoi(s[1:])
			return string([]byte{byte(n)})
		}))
	}
	return b.String()
}

// questionsAsked is what is asked of one request.
type questionsAsked struct {
	Enforced int
	Asks     []questionsAsk
	Found    []string // what each policy made of it
}

type questionsAsk struct {
	Policy, Key, Cost             string
	Shadow, Always, Fault, Listed bool
	Requests                      []questionsTake
}

type questionsTake struct {
	Limit string
	From  []string
	Carry int
}

// questionsOfGo is what a set asks.
func questionsOfGo(set *policy.Set, requests []questionsRequest) (out []questionsAsked) {
	var q policy.Matches
	for i := range requests {
		found := set.Explain(&q, &questionsAttributes{&requests[i]})
		asked := questionsAsked{Asks: []questionsAsk{}, Found: []string{}}
		for _, f := range found {
			asked.Found = append(asked.Found, strings.ToLower(f.Policy.Name()+" "+f.Missed))
		}
		enforced := set.Match(&q, &questionsAttributes{&requests[i]})
		for _, a := range q.Charges {
			x := questionsAsk{Policy: a.Policy.Name(), Key: a.Key, Cost: strconv.FormatInt(min(a.Cost, 1<<53), 10), Shadow: a.From >= enforced, Always: a.Always, Fault: a.Err != nil, Listed: true}
			if a.To <= enforced {
				asked.Enforced++
			}
			for _, r := range q.Requests[a.From:a.To] {
				take := questionsTake{Limit: r.Limit.String(), Carry: int(r.Carry), From: []string{}}
				for _, l := range r.From {
					take.From = append(take.From, l.String())
				}
				x.Listed = x.Listed && r.Key == a.Key && r.N == a.Cost
				x.Requests = append(x.Requests, take)
			}
			asked.Asks = append(asked.Asks, x)
		}
		out = append(out, asked)
	}
	return out
}

// questionsAttributes are those of a request of plain values.
type questionsAttributes struct{ r *questionsRequest }

func (a *questionsAttributes) Method() string              { return a.r.Method }
func (a *questionsAttributes) Host() string                { return a.r.Host }
func (a *questionsAttributes) Path() string                { return a.r.Path }
func (a *questionsAttributes) Header(name string) []string { return a.r.Headers[name] }
func (a *questionsAttributes) Query(name string) []string  { return a.r.Queries[name] }
func (a *questionsAttributes) Cookie(name string) []string { return a.r.Cookies[name] }
func (a *questionsAttributes) ClientIP() (addr netip.Addr) {
	addr, _ = netip.ParseAddr(a.r.IP)
	return addr
}

// asksInLua prints what is asked; told makes it of questions.ask.
const asksInLua = `
local cjson = require("cjson").new()
local plan, questions, request = require "weir.plan", require "weir.questions", require "weir.request"
local b64, unb64 = ngx.encode_base64, ngx.decode_base64
local function told(p, a)
  local found = {}
  local asks, enforced = questions.ask(p, a, found)
  local again = questions.ask(p, a)
  assert(#again == #asks)
  local out = { Enforced = enforced, Asks = {}, Found = {} }
  for i, f in ipairs(found) do out.Found[i] = f.policy.name .. " " .. (f.why or "") end
  for i, ask in ipairs(asks) do
    assert(again[i].key == ask.key and ask.shadow == (i > enforced))
    local x = { Policy = ask.policy.name, Key = b64(ask.key), Cost = ("%.0f"):format(ask.cost), Shadow = ask.shadow, Always = ask.always, Fault = ask.fault ~= nil, Listed = true, Requests = {} }
    for j, r in ipairs(ask.requests) do
      local from = {}
      for k, rule in ipairs(r.from or {}) do from[k] = rule.limit end
      x.Requests[j] = { Limit = r.rule.limit, From = from, Carry = r.carry }
      x.Listed = x.Listed and r.key == ask.key and r.n == ask.cost and r.verb == 0
    end
    out.Asks[i] = x
  end
  return out
end
local function planned(texts)
  local last
  for _, text in ipairs(texts) do
    local p = assert(plan.read(text))
    plan.follow(p, last)
    last = p
  end
  return last
end
local function raw(t)
  if type(t) == "string" then return unb64(t) end
  local out = {}
  for k, v in pairs(t) do out[k] = raw(v) end
  return out
end
local function lower(t)
  local out = {}
  for k, v in pairs(t) do out[k:lower()] = v end
  return out
end
return { told = told, planned = planned, raw = raw, lower = lower, cjson = cjson }
`

// A questionsServer asks.
type questionsServer struct{ *nginxtest.Server }

func startQuestions(t *testing.T) *questionsServer {
	t.Helper()
	return &questionsServer{nginxtest.Start(t, nginxtest.Config{HTTP: nginxtest.Path(t) + `
  server { listen ADDR; location / {
    client_max_body_size 64m; client_body_buffer_size 64m;
    content_by_lua_file DIR/code.lua;
  } }`})}
}

// ask is what the last of plans asks of each request.
func (s *questionsServer) ask(t *testing.T, plans []string, requests []questionsRequest) []questionsAsked {
	t.Helper()
	in := struct {
		Plans    []string
		Requests []any
	}{Plans: plans}
	for _, r := range requests {
		in.Requests = append(in.Requests, map[string]any{
			"method": b64(r.Method), "host": b64(r.Host), "path": b64(r.Path), "ip": b64(r.IP), "headers": b64s(r.Headers), "query": b64s(r.Queries), "cookies": b64s(r.Cookies),
		})
	}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := s.Run(t, `local lib = (function() `+asksInLua+` end)()
local body = lib.cjson.decode(ngx.req.get_body_data())
local p = lib.planned(body.Plans)
local out = {}
for i, r in ipairs(body.Requests) do
  local t = lib.raw(r)
  t.headers = lib.lower(t.headers)
  out[i] = lib.told(p, require("weir.request").of(t))
end
ngx.print(lib.cjson.encode(out))`, string(body))
	return questionsTold(t, out)
}

// questionsTold reads what asksInLua prints.
func questionsTold(t *testing.T, text string) []questionsAsked {
	t.Helper()
	var told []questionsAsked
	text = regexp.MustCompile(`"(Asks|Found|From|Requests)":\{\}`).ReplaceAllString(text, `"$1":[]`) // an empty table is none of either
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	for i := range told {
		for j := range told[i].Asks {
			key, err := base64.StdEncoding.DecodeString(told[i].Asks[j].Key)
			if err != nil {
				t.Fatal(err)
			}
			told[i].Asks[j].Key = string(key)
		}
		for j := range told[i].Found {
			told[i].Found[j] = strings.ToLower(told[i].Found[j])
		}
	}
	return told
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func b64s(m map[string][]string) map[string][]string {
	out := map[string][]string{}
	for k, vs := range m {
		out[k] = []string{}
		for _, v := range vs {
			out[k] = append(out[k], b64(v))
		}
	}
	return out
}
