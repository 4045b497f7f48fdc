-- What used to govern the keys of a policy, before its limits changed: policy.Following.

local override = require "weir.override"

local M = {}

-- most is how many former versions of a policy are remembered.
local most = 4

-- RESET is the carry of limits that start afresh.
local RESET = 3

local function same(a, b) return a == b or a.limit == b.limit end

-- place is where the state of a rule stands among those of a list, or nil.
local function place(list, rule)
  for i = 1, #list do
    if list[i].suffix == rule.suffix then return i end
  end
  return nil
end

local function equal(a, b)
  if a == b then return true end
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same(a[i], b[i]) then return false end
  end
  return true
end

-- alike compares two tables of a plan in depth, but for what was made ready.
local function alike(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b or type(a) == "function" and type(b) == "function" end
  for k, v in pairs(a) do
    if not alike(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

-- same_bucket says whether two parts give a request the same value.
local function same_bucket(a, b)
  return a.source == b.source and a.name == b.name and a.header == b.header and a.bits == b.bits and alike(a.of, b.of)
end

local function same_key(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same_bucket(a[i], b[i]) then return false end
  end
  return true
end

-- same_limits says whether two policies give every key the same limits.
local function same_limits(p, o)
  if p == o then return true end
  if not equal(p.limits, o.limits) then return false end
  local mine, theirs = p.exact or {}, o.exact or {}
  for k, rules in pairs(mine) do
    if not theirs[k] or not equal(rules, theirs[k]) then return false end
  end
  for k in pairs(theirs) do
    if not mine[k] then return false end
  end
  mine, theirs = p.wildcards or {}, o.wildcards or {}
  if #mine ~= #theirs then return false end
  for i = 1, #mine do
    if not alike(mine[i].fit, theirs[i].fit) or not equal(mine[i].limits, theirs[i].limits) then return false end
  end
  return true
end

-- pair is, for each of newer, the place of the one of older that it follows, or false:
-- the one of its state or else, in order, the next that has the state of none. A
-- concurrency limit carries nothing over.
local function pair(newer, older)
  local to, next = {}, 1
  for i = 1, #newer do to[i] = place(older, newer[i]) or false end
  for i = 1, #newer do
    if not to[i] and not newer[i].lease then
      while next <= #older and (older[next].lease or place(newer, older[next])) do next = next + 1 end
      if next > #older then break end
      to[i] = next
      next = next + 1
    end
  end
  return to
end

-- lines is, for each of limits, those that it follows, newest first, or false, if the key
-- had each of former before, newest first; nil if none follows any. What governs the key
-- now is followed by nothing, and nothing twice.
local function lines(limits, former)
  local out, at, seen = nil, {}, {}
  for i = 1, #limits do at[i], seen[i] = i, limits[i] end
  local newer = limits
  for i = 1, #former do
    local older = former[i]
    local to = pair(newer, older)
    for j = 1, #limits do
      at[j] = at[j] and to[at[j]]
      local rule = at[j] and older[at[j]]
      if rule and not place(seen, rule) then
        if not out then
          out = {}
          for k = 1, #limits do out[k] = false end
        end
        out[j] = out[j] or {}
        out[j][#out[j] + 1] = rule
        seen[#seen + 1] = rule
      end
    end
    newer = older
  end
  return out
end

local function limits_of(former)
  local list = {}
  for i = 1, #former do list[i] = former[i].limits end
  return list
end

-- follow makes p the successor of old, which has its name; nil if there is none. One of
-- another bucket or with another key is none.
function M.follow(p, old)
  p.former, p.lines = nil, nil
  if not old or p.bucket ~= old.bucket or p.carry == RESET or not same_key(p.key, old.key) then return end
  -- Of what is remembered nothing but the limits is kept: not all that it followed itself.
  local chain, former = { { limits = old.limits, exact = old.exact, wildcards = old.wildcards } }, {}
  for _, o in ipairs(old.former or {}) do chain[#chain + 1] = o end
  for _, o in ipairs(chain) do
    local known = same_limits(p, o)
    for _, f in ipairs(former) do known = known or same_limits(f, o) end
    if #former < most and not known then former[#former + 1] = o end
  end
  if #former > 0 then
    p.former, p.lines = former, lines(p.limits, limits_of(former))
  end
end

-- from is, for each of the limits of a key, those it follows or false; nil if none
-- follows any. ruled tells that an override gives the limits.
function M.from(p, limits, ruled, name, values, a)
  local former = p.former
  local list, changed
  for i = 1, #former do
    local rules, r = override.limits(former[i], name, values, a)
    if r and not ruled then ruled = true end
    list = list or {}
    list[i] = rules
    changed = changed or not equal(rules, limits)
  end
  if not ruled then return p.lines end
  if not changed then return nil end
  return lines(limits, list)
end

return M
