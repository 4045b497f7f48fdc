-- The charges of a request: one for each policy that it matches, enforced ones first,
-- then those in shadow: shadow policies, and policies that are not enforced for the key. A
-- blocked charge, of a key that an operator froze or blocked, has no requests.

local adjustments = require "weir.adjustments"
local bit = require "bit"
local ffi = require "ffi"
local key = require "weir.key"
local match = require "weir.match"
local override = require "weir.override"

local M = {}

local bxor, rshift = bit.bxor, bit.rshift
local byte = string.byte
local tonumber = tonumber

local uint64 = ffi.typeof("uint64_t")

local TAKE = 0

-- bucket_of_100 returns which of 100 groups a key belongs to: FNV-1a, mixed by the
-- finalizer of MurmurHash3.
local function bucket_of_100(text)
  local h = 14695981039346656037ULL
  for i = 1, #text do h = bxor(h, uint64(byte(text, i))) * 1099511628211ULL end
  h = bxor(h, rshift(h, 33)) * 0xff51afd7ed558ccdULL
  h = bxor(h, rshift(h, 33)) * 0xc4ceb9fe1a85ec53ULL
  return tonumber(bxor(h, rshift(h, 33)) % 100ULL)
end

-- cost returns how many tokens a request takes.
local function cost(p, a, s)
  if not p.cost_of then return p.cost end
  local n, err = p.cost_of(a, match.variant(a, s.variant))
  if n ~= nil and n < 0 then n, err = nil, "want 0 or more tokens, got " .. n end
  if n == nil then
    match.fault(s, p, "cost", err)
    return p.cost
  end
  return n
end

-- State of the request in progress; nothing yields while it is used.
local s, values, shadows = {}, {}, {}

-- charged reports whether a policy with the bucket of p has a charge already.
local function charged(p, charges, enforced, count)
  for i = 1, enforced do
    if charges[i].policy.bucket == p.bucket then return true end
  end
  for i = 1, count do
    if shadows[i].policy.bucket == p.bucket then return true end
  end
  return false
end

-- of returns the charges of a request, and how many of them are enforced.
function M.of(plan, a)
  local policies = plan.policies
  local charges, enforced, count = {}, 0, 0
  for i = 1, #policies do
    local p = policies[i]
    if match.request(p, a, s) and not (p.shares_bucket and charged(p, charges, enforced, count)) then
      local name = key.of(p.bucket, key.parts(p, a, s, values))
      local n = cost(p, a, s)
      local shadow = p.shadow or p.percent < 100 and bucket_of_100(name) >= p.percent
      local adjusted, requests = adjustments.of(name), {}
      local blocked = adjusted and not adjusted.rules or nil
      local rules = adjusted and adjusted.rules or override.limits(p, name, values, a)
      for j = 1, blocked and 0 or #rules do requests[j] = { key = name, rule = rules[j], verb = TAKE, n = n } end
      local charge = { policy = p, key = name, cost = n, shadow = shadow, blocked = blocked, fault = s.fault, requests = requests }
      if shadow then
        count = count + 1
        shadows[count] = charge
      else
        enforced = enforced + 1
        charges[enforced] = charge
      end
    end
  end
  for i = 1, count do
    charges[enforced + i] = shadows[i]
    shadows[i] = nil
  end
  return charges, enforced
end

return M
