-- What one request has to ask: one ask for each policy that it falls under, those that
-- are enforced first. Then comes what is in shadow: shadow policies, those that are not
-- enforced for their key, and candidates.

local bit = require "bit"
local ffi = require "ffi"
local expression = require "weir.expression"
local key = require "weir.key"
local match = require "weir.match"
local override = require "weir.override"
local past = require "weir.past"

local M = {}

local bxor, rshift = bit.bxor, bit.rshift
local byte, type = string.byte, type
local tonumber = tonumber

local uint64 = ffi.typeof("uint64_t")

-- TAKE is the verb of every question.
local TAKE = 0

-- most is the largest cost: no limit has a capacity of so many tokens.
local most = 2 ^ 53

-- share is which of a hundred shares of all keys a key belongs to: FNV-1a, mixed by the
-- finalizer of MurmurHash3.
local function share(text)
  local h = 14695981039346656037ULL
  for i = 1, #text do h = bxor(h, uint64(byte(text, i))) * 1099511628211ULL end
  h = bxor(h, rshift(h, 33)) * 0xff51afd7ed558ccdULL
  h = bxor(h, rshift(h, 33)) * 0xc4ceb9fe1a85ec53ULL
  return tonumber(bxor(h, rshift(h, 33)) % 100ULL)
end
M.share = share

-- cost is what a request takes.
local function cost(p, a, s)
  local of = p.cost_of
  if not of then return p.cost end
  local n, err = expression.eval(of, a, match.reading(a, s.reading))
  if n ~= nil and n < 0 then n, err = nil, "want 0 or more tokens, got " .. tostring(n) end
  if n == nil then
    match.fault(s, p, "cost", err)
    return p.cost
  end
  if type(n) ~= "number" or n > most then return most end
  return n
end

-- ask is the question of a policy with such values, its requests included.
local function ask(p, name, n, fault, shadow, values, a)
  local rules, ruled = override.limits(p, name, values, a)
  local from = p.former and past.from(p, rules, ruled, name, values, a)
  local requests = {}
  for i = 1, #rules do
    local line = from and from[i] or nil
    requests[i] = { key = name, rule = rules[i], verb = TAKE, n = n, from = line, carry = line and p.carry or 0 }
  end
  return { policy = p, key = name, cost = n, shadow = shadow, always = p.always or false, fault = fault, requests = requests }
end

-- What is known of the request while it is asked about; nothing yields meanwhile.
local s, values, later = {}, {}, {}

-- counted says whether a policy of the zone of p is asked already.
local function counted(p, asks, enforced, count)
  for i = 1, enforced do
    if asks[i].policy.bucket == p.bucket then return true end
  end
  for i = 1, count do
    if later[i].policy.bucket == p.bucket then return true end
  end
  return false
end

-- ask is the asks of a request, and how many of them are enforced. found, if it is a
-- table, is told what every policy makes of the request: { policy, matched, why, ask }.
function M.ask(plan, a, found)
  local policies = plan.policies
  local asks, enforced, count = {}, 0, 0
  for i = 1, #policies do
    local p = policies[i]
    local matched, why = match.request(p, a, s)
    if matched and p.zoned and counted(p, asks, enforced, count) then matched, why = false, "nginx.zone" end
    local own, tried
    local c = p.candidate
    if matched then
      local parts = key.parts(p, a, s, values)
      local name, n = key.of(p.bucket, parts), cost(p, a, s)
      local shadow = p.shadow or p.percent < 100 and share(name) >= p.percent
      own = ask(p, name, n, s.fault, shadow, values, a)
      if shadow then
        count = count + 1
        later[count] = own
      else
        enforced = enforced + 1
        asks[enforced] = own
      end
      if c then
        tried = ask(c, key.of(c.bucket, parts), n, s.fault, true, values, a)
        count = count + 1
        later[count] = tried
      end
    end
    if found then
      found[#found + 1] = { policy = p, matched = matched, why = why, ask = own }
      if c then found[#found + 1] = { policy = c, matched = matched, why = why, ask = tried } end
    end
  end
  for i = 1, count do
    asks[enforced + i] = later[i]
    later[i] = nil
  end
  return asks, enforced
end

return M
