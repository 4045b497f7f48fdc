-- Plans: policies that `weir edge nginx` or `weir apply` compiled to JSON.
-- cmd/weir/internal/edge/plan.go documents every field. A plan of another format is
-- refused. Beyond that the compiler is trusted: an unusable plan is refused as a whole.

local cjson = require("cjson").new()
local ffi = require "ffi"
local key = require "weir.key"
local match = require "weir.match"
local override = require "weir.override"
local expression = require "weir.expression"
local takes = require "weir.takes"

local M = {}

-- FORMAT is the format of plans and settings that this version reads.
M.FORMAT = 1

local int64s = ffi.typeof("int64_t[?]")

-- rule encodes the params as the script reads them: 8 bytes each, little-endian.
local function rule(r)
  r.packed = ffi.string(int64s(#r.params, r.params), 8 * #r.params)
  if r.lease == 0 then r.lease = nil end
  takes.prepare(r)
end

-- rules returns the limits of an adjusted key, edge.Adjusted, or nil and an error.
function M.rules(of)
  if type(of) ~= "table" or of.format ~= M.FORMAT then return nil, "made by another version of weir" end
  if of.problem then return nil, tostring(of.problem) end
  for i = 1, #of.rules do rule(of.rules[i]) end
  return of.rules[1] and of.rules or nil, "a raise without limits"
end

-- limits replaces positions in the plan's rules by the rules.
local function limits(list, plan)
  assert(#list > 0, "a policy without limits")
  for i = 1, #list do list[i] = assert(plan.rules[list[i]], "an unknown rule") end
end

local function policy(p, plan)
  limits(p.limits, plan)
  match.prepare(p.match)
  for _, part in ipairs(p.key) do key.prepare(part) end
  if p.cost_of then p.cost_of = expression.compile(p.cost_of) end
  for _, rules in pairs(p.exact or {}) do limits(rules, plan) end
  for _, w in ipairs(p.wildcards or {}) do
    for _, fit in ipairs(w.fit) do override.prepare(fit) end
    limits(w.limits, plan)
  end
end

local function prepare(plan)
  assert(type(plan.script) == "string" and type(plan.prefix) == "string", "want a script and a prefix")
  for _, r in ipairs(plan.rules) do rule(r) end
  local buckets = {}
  for _, p in ipairs(plan.policies) do
    policy(p, plan)
    p.shares_bucket, buckets[p.bucket] = buckets[p.bucket], true
  end
end

-- read returns the plan in a JSON text, or nil and an error.
function M.read(json)
  local ok, plan = pcall(cjson.decode, json)
  if not ok or type(plan) ~= "table" then return nil, "plan: want a JSON object" end
  if plan.format ~= M.FORMAT then
    return nil, "plan: format " .. tostring(plan.format) .. ": want " .. M.FORMAT .. ": made by another version of weir"
  end
  local err
  ok, err = pcall(prepare, plan)
  if not ok then return nil, "plan: not made by this version of weir: " .. tostring(err) end
  return plan
end

return M
