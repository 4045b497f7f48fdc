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
	chargesSeed  = flag.Uint64("charges-seed", 1, "seed of random policies and requests")
	chargesWires = flag.Int("charges-wires", 4000, "number of random requests on a connection")
	chargesSets  = flag.Int("charges-sets", 24, "number of random sets of policies")
)

// TestCharges checks that the Lua makes the same charges as package policy, byte for byte, for
// random policies and requests.
func TestCharges(t *testing.T) {
	t.Parallel()
	weir := programtest.Weir(t)
	d := dice{rand.New(rand.NewPCG(*chargesSeed, 0))}
	s := startCharges(t)
	var asked, faults, hashed, ruled, zoned int
	for set := range *chargesSets {
		file := d.file(t)
		var requests []plainRequest
		for range 200 {
			requests = append(requests, d.request())
		}
		got := s.ask(t, planOf(t, weir, file), requests)
		want := chargesInGo(setOf(t, file), requests)
		for i := range requests {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("set %d, request %d %+q:\nnginx charges %+v\n  weir charges %+v\nof %s", set, i, requests[i], got[i], want[i], file)
			}
			for _, a := range want[i].Asks {
				asked++
				if a.Fault {
					faults++
				}
				if strings.Contains(a.Key, "~zone|") {
					zoned++
				}
				if strings.Contains(a.Key, "|#") {
					hashed++
				}
				if strings.HasPrefix(a.Limits[len(a.Limits)-1], "1000/s") {
					ruled++
				}
			}
		}
	}
	t.Logf("%d sets, %d requests: %d charges, of which %d with a fault, %d under a hash, %d by an override, %d of a zone",
		*chargesSets, *chargesSets*200, asked, faults, hashed, ruled, zoned)
	if faults == 0 || hashed == 0 || ruled == 0 || zoned == 0 {
		t.Error("want some of each")
	}
}

// file returns a file of random policies.
func (d dice) file(t *testing.T) string {
	t.Helper()
	var policies []map[string]any
	for n := 0; len(policies) < 12; n++ {
		if n > 1000 {
			t.Fatal("hardly any policy is valid")
		}
		p := d.policy(fmt.Sprintf("p%d", len(policies)))
		if _, err := weirfile.Parse("random", chargesFile(append(policies, p)...)); err == nil {
			policies = append(policies, p)
		}
	}
	return string(chargesFile(policies...))
}

func chargesFile(policies ...map[string]any) []byte {
	text, err := json.Marshal(map[string]any{"store": "redis://127.0.0.1:6379", "policies": policies})
	if err != nil {
		panic(err)
	}
	return text
}

// setOf returns the policies of a file.
func setOf(t *testing.T, text string) *policy.Set {
	t.Helper()
	f, err := weirfile.Parse("random", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f.Policies
}

// planOf returns the plan of a file, as weir edge nginx compiles it.
func planOf(t *testing.T, weir, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return planIn(t, edgeConf(t, weir, file))
}

var diceEscape = regexp.MustCompile(`\\(\d{3})`)

// planIn returns the plan in a configuration.
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
		b.WriteString(diceEscape.ReplaceAllStringFunc(line, func(s string) string {
			n, _ := strconv.Atoi(s[1:])
			return string([]byte{byte(n)})
		}))
	}
	return b.String()
}

// chargesOf holds the charges of one request.
type chargesOf struct {
	Enforced int
	Asks     []chargeJSON
}

type chargeJSON struct {
	Policy, Key, Cost     string
	Shadow, Fault, Listed bool
	Limits                []string
}

// chargesInGo returns the charges of a policy set.
func chargesInGo(set *policy.Set, requests []plainRequest) (out []chargesOf) {
	var q policy.Matches
	for i := range requests {
		asked := chargesOf{Asks: []chargeJSON{}}
		enforced := set.Match(&q, &plainAttributes{&requests[i]})
		for _, a := range q.Charges {
			x := chargeJSON{Policy: a.Policy.Name(), Key: a.Key, Cost: strconv.FormatInt(min(a.Cost, 1<<53), 10), Shadow: a.From >= enforced, Fault: a.Err != nil, Listed: true}
			if a.To <= enforced {
				asked.Enforced++
			}
			for _, r := range q.Requests[a.From:a.To] {
				x.Listed = x.Listed && r.Key == a.Key && r.N == a.Cost
				x.Limits = append(x.Limits, r.Limit.String())
			}
			asked.Asks = append(asked.Asks, x)
		}
		out = append(out, asked)
	}
	return out
}

// plainAttributes implements policy.Attributes for a plainRequest.
type plainAttributes struct{ r *plainRequest }

func (a *plainAttributes) Method() string              { return a.r.Method }
func (a *plainAttributes) Host() string                { return a.r.Host }
func (a *plainAttributes) Path() string                { return a.r.Path }
func (a *plainAttributes) Header(name string) []string { return a.r.Headers[name] }
func (a *plainAttributes) Query(name string) []string  { return a.r.Queries[name] }
func (a *plainAttributes) Cookie(name string) []string { return a.r.Cookies[name] }
func (a *plainAttributes) ClientIP() (addr netip.Addr) {
	addr, _ = netip.ParseAddr(a.r.IP)
	return addr
}

// chargesInLua prints the charges of a request.
const chargesInLua = `
local cjson = require("cjson").new()
local charges = require "weir.charges"
local b64, unb64 = ngx.encode_base64, ngx.decode_base64
local function result(p, a)
  local asks, enforced = charges.of(p, a)
  local out = { Enforced = enforced, Asks = {} }
  for i, ask in ipairs(asks) do
    assert(ask.shadow == (i > enforced))
    local x = { Policy = ask.policy.name, Key = b64(ask.key), Cost = ("%.0f"):format(ask.cost), Shadow = ask.shadow, Fault = ask.fault ~= nil, Listed = true, Limits = {} }
    for j, r in ipairs(ask.requests) do
      x.Limits[j] = r.rule.limit
      x.Listed = x.Listed and r.key == ask.key and r.n == ask.cost and r.verb == 0
    end
    out.Asks[i] = x
  end
  return out
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
return { result = result, raw = raw, lower = lower, cjson = cjson }
`

// A chargesServer is an nginx that computes charges.
type chargesServer struct{ *nginxtest.Server }

func startCharges(t *testing.T) *chargesServer {
	t.Helper()
	return &chargesServer{nginxtest.Start(t, nginxtest.Config{HTTP: nginxtest.Path(t) + `
  server { listen ADDR; location / {
    client_max_body_size 64m; client_body_buffer_size 64m;
    content_by_lua_file DIR/code.lua;
  } }`})}
}

// ask returns the charges of each request under a plan.
func (s *chargesServer) ask(t *testing.T, plan string, requests []plainRequest) []chargesOf {
	t.Helper()
	in := struct {
		Plan     string
		Requests []any
	}{Plan: plan}
	for _, r := range requests {
		in.Requests = append(in.Requests, map[string]any{
			"method": b64(r.Method), "host": b64(r.Host), "path": b64(r.Path), "ip": b64(r.IP), "headers": b64s(r.Headers), "query": b64s(r.Queries), "cookies": b64s(r.Cookies),
		})
	}
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := s.Run(t, `local lib = (function() `+chargesInLua+` end)()
local body = lib.cjson.decode(ngx.req.get_body_data())
local p = assert(require("weir.plan").read(body.Plan))
local out = {}
for i, r in ipairs(body.Requests) do
  local t = lib.raw(r)
  t.headers = lib.lower(t.headers)
  out[i] = lib.result(p, require("weir.attributes").of(t))
end
ngx.print(lib.cjson.encode(out))`, string(body))
	return readCharges(t, out)
}

// readCharges parses the output of chargesInLua.
func readCharges(t *testing.T, text string) []chargesOf {
	t.Helper()
	var result []chargesOf
	text = regexp.MustCompile(`"(Asks|Limits)":\{\}`).ReplaceAllString(text, `"$1":[]`) // an empty Lua table is neither list nor object
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	for i := range result {
		for j := range result[i].Asks {
			key, err := base64.StdEncoding.DecodeString(result[i].Asks[j].Key)
			if err != nil {
				t.Fatal(err)
			}
			result[i].Asks[j].Key = string(key)
		}
	}
	return result
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
