-- A plan: policies as Weir compiled them, from JSON, checked and made ready. What every
-- field means stands in cmd/weir/internal/edge/plan.go.

local cjson = require("cjson").new()
local ffi = require "ffi"
local expression = require "weir.expression"
local key = require "weir.key"
local match = require "weir.match"
local override = require "weir.override"
local past = require "weir.past"

cjson.decode_invalid_numbers(false)

local M = {}

local concat, format = table.concat, string.format
local ipairs, pairs, pcall, tostring, type = ipairs, pairs, pcall, tostring, type

-- FORMAT is that of the plans that this version reads.
local FORMAT = 1

local MOST = 2 ^ 53 - 1

-- fail ends the reading of a plan: it is no fault of the program.
local function fail(field, want, got)
  local text = "plan: " .. field .. ": " .. want
  if got ~= nil and type(got) ~= "table" then text = text .. ", got " .. tostring(got):sub(1, 60) end
  error({ text = text }, 0)
end

-- Kinds of values. Each returns the value or fails.
local function text(v, field)
  if type(v) ~= "string" then fail(field, "want a text", v) end
  return v
end

local function number(v, field, least, most)
  if type(v) ~= "number" or v % 1 ~= 0 or v < least or v > most then
    fail(field, format("want a whole number from %.0f to %.0f", least, most), v)
  end
  return v
end

local function flag(v, field)
  if v ~= nil and type(v) ~= "boolean" then fail(field, "want true or false", v) end
  return v or false
end

local function one(v, field, choices)
  if not choices[v] then
    local names = {}
    for name in pairs(choices) do names[#names + 1] = name end
    table.sort(names)
    fail(field, "want one of " .. concat(names, ", "), v)
  end
  return v
end

-- list is a list, each element of which each checks; {} if v is nil.
local function list(v, field, each)
  if v == nil then return {} end
  if type(v) ~= "table" then fail(field, "want a list", v) end
  local n = 0
  for k in pairs(v) do
    if type(k) ~= "number" then fail(field, "want a list", k) end
    n = n + 1
  end
  if n ~= #v then fail(field, "want a list without gaps") end
  for i = 1, n do
    local at = field .. "[" .. i - 1 .. "]"
    if type(v[i]) ~= "table" and each ~= text then fail(at, "want an object", v[i]) end
    each(v[i], at)
  end
  return v
end

local function object(v, field)
  if type(v) ~= "table" then fail(field, "want an object", v) end
  return v
end

local int64s = ffi.typeof("int64_t[?]")

-- packed is numbers as the script takes them: 8 bytes each, little-endian.
local function packed(numbers)
  return ffi.string(int64s(#numbers, numbers), 8 * #numbers)
end

local function calendar(c, field)
  text(c.of, field .. ".of")
  number(c.at, field .. ".at", 1, 64)
  local bounds, last = c.bounds, -MOST
  if type(bounds) ~= "table" or #bounds == 0 then fail(field .. ".bounds", "want instants", bounds) end
  for i = 1, #bounds do
    number(bounds[i], field .. ".bounds", -MOST, MOST)
    if bounds[i] <= last and i > 1 then fail(field .. ".bounds", "want instants, the earlier ones first", bounds[i]) end
    last = bounds[i]
  end
end

local function rule(r, field, plan)
  for _, name in ipairs { "limit", "suffix", "algorithm" } do
    if text(r[name], field .. "." .. name) == "" then fail(field .. "." .. name, "want a text of at least one byte") end
  end
  if type(r.params) ~= "table" or #r.params == 0 or #r.params > 64 then fail(field .. ".params", "want 1 to 64 numbers", r.params) end
  for i = 1, #r.params do number(r.params[i], field .. ".params", -MOST, MOST) end
  number(r.capacity, field .. ".capacity", 0, MOST)
  if r.window ~= nil then number(r.window, field .. ".window", 0, MOST) end
  if r.lease ~= nil then number(r.lease, field .. ".lease", 0, MOST) end
  if r.lease == 0 then r.lease = nil end
  if r.calendar == nil or r.calendar == 0 then
    r.calendar = nil
    r.packed = packed(r.params)
    return
  end
  local i = number(r.calendar, field .. ".calendar", 1, #plan.calendars)
  r.calendar = plan.calendars[i]
  if r.calendar.at + 4 > #r.params then fail(field .. ".calendar", "want params for its five bounds", #r.params) end
end

-- rules_of puts rules in the place of the numbers that stand for them.
local function rules_of(v, field, plan)
  if type(v) ~= "table" or #v == 0 or #v > 256 then fail(field, "want 1 to 256 rules", v) end
  for i = 1, #v do
    v[i] = plan.rules[number(v[i], field .. "[" .. i - 1 .. "]", 1, #plan.rules)]
  end
end

local function wants(want, field, got)
  if want then fail(field, want, got) end
end

local function matching(m, field)
  list(m.methods, field .. ".methods", text)
  list(m.hosts, field .. ".hosts", function(h, at)
    text(h.name, at .. ".name")
    flag(h.below, at .. ".below")
  end)
  list(m.paths, field .. ".paths", function(r, at)
    text(r.pattern, at .. ".pattern")
    if r.segments == ngx.null then r.segments = nil end
    list(r.segments, at .. ".segments", text)
    flag(r.rest, at .. ".rest")
  end)
  list(m.headers, field .. ".headers", function(h, at)
    text(h.name, at .. ".name")
    list(h.values, at .. ".values", text)
    flag(h.any, at .. ".any")
  end)
  if m.where ~= nil then wants(expression.ready(m.where), field .. ".where") end
  match.ready(m)
end

local function denied(d, field)
  number(d.status, field .. ".status", 100, 599)
  flag(d.problem, field .. ".problem")
  for _, name in ipairs { "body", "content_type", "redirect" } do
    if d[name] ~= nil then text(d[name], field .. "." .. name) end
  end
  if d.headers ~= nil then
    for name, value in pairs(object(d.headers, field .. ".headers")) do text(value, field .. ".headers." .. tostring(name)) end
  end
  if d.wait ~= nil then number(d.wait, field .. ".wait", 0, MOST) end
end

local counts = { admitted = true, all = true, failures = true, successes = true }
local fails = { open = true, closed = true }

-- overrides makes the limits of certain keys ready.
local function overrides(p, field, plan)
  if p.exact ~= nil then
    for k, rules in pairs(object(p.exact, field .. ".exact")) do
      rules_of(rules, field .. ".exact." .. text(k, field .. ".exact"), plan)
    end
  end
  list(p.wildcards, field .. ".wildcards", function(w, at)
    list(w.fit, at .. ".fit", function(f, place) wants(override.ready(f), place) end)
    if #(w.fit or {}) ~= #p.key then fail(at .. ".fit", "want one for each part of the key", #(w.fit or {})) end
    rules_of(w.limits, at .. ".limits", plan)
  end)
  if p.exact and next(p.exact) == nil then p.exact = nil end
  if p.wildcards and #p.wildcards == 0 then p.wildcards = nil end
end

-- candidate is the policy that tries limits of p out, with the request counting as p says.
local function candidate(p)
  local c = {}
  for k, v in pairs(p) do c[k] = v end
  c.name, c.bucket = p.name .. "~candidate", p.name .. "~candidate" -- it is outside of a zone
  c.shadow, c.always, c.percent, c.limits = true, true, 100, p.candidate
  c.candidate, c.exact, c.wildcards = nil, nil, nil
  return c
end

local function policy(p, field, plan)
  if text(p.name, field .. ".name") == "" then fail(field .. ".name", "want a name") end
  field = "policies." .. p.name:sub(1, 64)
  if text(p.bucket, field .. ".bucket") == "" then fail(field .. ".bucket", "want a text of at least one byte") end
  p.shadow = flag(p.shadow, field .. ".shadow")
  number(p.percent, field .. ".percent", 1, 100)
  matching(object(p.match, field .. ".match"), field .. ".match")
  if #list(p.key, field .. ".key", function(part, at)
    wants(key.ready(part, tonumber(at:match("(%d+)%]$")) + 1), at, part.source)
  end) == 0 or #p.key > 16 then
    fail(field .. ".key", "want 1 to 16 parts")
  end
  rules_of(p.limits, field .. ".limits", plan)
  number(p.cost, field .. ".cost", 1, MOST)
  if p.cost_of ~= nil then wants(expression.ready(p.cost_of), field .. ".cost_of") end
  if p.settle ~= nil then text(p.settle, field .. ".settle") end
  one(p.count, field .. ".count", counts)
  list(p.failures, field .. ".failures", function(r, at)
    number(r[1], at, 100, 599)
    number(r[2], at, r[1], 599)
  end)
  denied(object(p.on_denied, field .. ".on_denied"), field .. ".on_denied")
  one(p.on_store_error, field .. ".on_store_error", fails)
  number(p.carry, field .. ".carry", 0, 3)
  overrides(p, field, plan)
  if p.candidate ~= nil and #object(p.candidate, field .. ".candidate") > 0 then
    rules_of(p.candidate, field .. ".candidate", plan)
    p.candidate = candidate(p)
  else
    p.candidate = nil
  end
end

-- nulls takes every null away: it is as if nothing stood there.
local function nulls(t, null)
  for k, v in pairs(t) do
    if v == null then t[k] = nil elseif type(v) == "table" then nulls(v, null) end
  end
end

local function read(json)
  local ok, plan = pcall(cjson.decode, json)
  if not ok then fail("want JSON", tostring(plan)) end
  object(plan, "all of it")
  nulls(plan, cjson.null)
  if plan.format ~= FORMAT then
    fail("format " .. tostring(plan.format), "want " .. FORMAT .. ": made by another version of weir")
  end
  if plan.version ~= nil then number(plan.version, "version", 0, MOST) end
  if text(plan.script, "script") == "" then fail("script", "want a script") end
  text(plan.prefix, "prefix")
  plan.calendars = list(plan.calendars, "calendars", calendar)
  plan.rules = list(plan.rules, "rules", function(r, at) rule(r, at, plan) end)
  if plan.policies == nil then fail("policies", "want a list") end -- without one, all would go through
  list(plan.policies, "policies", function(p, at) policy(p, at, plan) end)
  plan.by_name = {}
  local buckets = {}
  for _, p in ipairs(plan.policies) do
    p.zoned, buckets[p.bucket] = buckets[p.bucket], true
    if plan.by_name[p.name] then fail("policies." .. p.name, "want every name once") end
    plan.by_name[p.name] = p
    if p.candidate then plan.by_name[p.candidate.name] = p.candidate end
  end
  return plan
end

-- read is a plan made ready, or nil and what is wrong with it.
function M.read(json)
  if type(json) ~= "string" then return nil, "plan: want JSON, got " .. type(json) end
  local ok, plan = pcall(read, json)
  if ok then return plan end
  if type(plan) == "table" and plan.text then return nil, plan.text end
  return nil, "plan: " .. tostring(plan)
end

-- follow makes a plan the successor of old, the one that it takes the place of: keys of a
-- policy that both have carry over what they owe under limits that changed. An old of nil
-- is no predecessor. What old itself followed is remembered, up to four limits back.
function M.follow(plan, old)
  for name, p in pairs(plan.by_name) do past.follow(p, old and old.by_name[name]) end
end

return M
