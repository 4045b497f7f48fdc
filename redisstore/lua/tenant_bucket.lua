-- Twin of internal/algo/tenant_bucket.go, where the idea and the formula are.
--
-- State: s[1] µs, s[2] fingerprint and s[3] unit of the parent, s[4] level of the pool; then the
-- ID and the level of each child.
-- Params: fingerprint, unit, rate, burst and pool of the parent, number of the child; then the
-- ID, the rate and the burst of each child.

local floor, max, min = math.floor, math.max, math.min

local MOST = 1125899906842624 -- 2^50 units
local MOST_TENANTS = 256

local function ceil_div(a, b) return floor((a + b - 1) / b) end

-- refill returns the level of a child d µs later, and the pool of at most most units that had q.
local function refill(rate, burst, level, q, most, d)
  local full = 0
  if level < burst then
    full = ceil_div(burst - level, rate)
    if d < full then return level + rate * d, q end
    level = level + rate * full
  end
  if d - full >= ceil_div(most - q, rate) then return burst, most end
  return burst, min(most, q + rate * (d - full) + max(0, level - burst))
end

-- adopt returns the state s of a parent with other children, another rate or burst, as a state of p.
local function adopt(s, p)
  local unit, was = p[2], s[3]
  local mulmod = use('migrate').mulmod
  local function converted(level)
    if was == unit then return level end
    local tokens = floor(level / was)
    local part = mulmod(level - tokens * was, unit, was)
    local most = floor(floor(MOST / MOST_TENANTS) / unit)
    return min(max(tokens, -most), floor(MOST / unit)) * unit + part
  end
  local u, levels, rest = { s[1], p[1], unit }, {}, converted(s[4])
  for i = 5, #s, 2 do
    levels[s[i]] = converted(s[i + 1])
    rest = min(2 * MOST, rest + levels[s[i]])
  end
  for i = 7, #p, 3 do
    local at = 5 + (i - 7) / 3 * 2
    u[at], u[at + 1] = p[i], min(levels[p[i]] or 0, p[i + 2])
    rest = rest - u[at + 1]
  end
  u[4] = min(p[5], max(0, rest))
  rest = rest - u[4]
  for i = 7, #p, 3 do
    local at = 6 + (i - 7) / 3 * 2
    local more = max(0, min(p[i + 2] - u[at], rest))
    u[at], rest = u[at] + more, rest - more
  end
  return u
end

local function decide(s, p, op, now, n)
  local used = s[1] and s[1] > 0
  local u = s
  if used and s[2] ~= p[1] then u = adopt(s, p) end
  local unit, rate, most = p[2], p[3], p[5]
  local mine = 4 + 3 * p[6] -- index in p
  local t, d, q = now, 0, most
  if used then
    if u[1] > t then t = u[1] end
    d, q = t - u[1], u[4]
  end
  local own, missing, latest, at = 0, p[4], 0, 6
  for i = 7, #p, 3 do
    local burst = p[i + 2]
    local level = burst
    if used then level, q = refill(p[i + 1], burst, u[at], q, most, d) end
    missing = missing - level
    if i == mine then
      own = level
    elseif level < burst then
      latest = max(latest, ceil_div(burst - level, p[i + 1]))
    end
    at = at + 2
  end
  missing = missing - q
  local r, burst = p[mine + 1], p[mine + 2]
  local before, pool, ok, granted, retry = own, q, true, 0, 0
  local fits, lent = max(0, floor(own / unit)), 0
  if own >= 0 then lent = floor(q / unit) end
  local asked = n
  if op == TAKE or op == PEEK then
    ok = n == 0 or n <= max(fits, lent)
  elseif op == TAKE_UP_TO then
    n = min(n, max(fits, lent))
    if n == 0 and asked > 0 then ok, n = false, 1 end
  elseif op == CHARGE then
    n = min(n, floor(max(0, 2 * MOST - missing) / unit))
  else
    n = min(n, ceil_div(missing, unit))
  end
  if op ~= PEEK and ok then
    if op == RETURN then
      local back = n * unit
      own = min(burst, own + back)
      pool = min(most, pool + back - (own - before))
    elseif n > fits and n <= lent then
      pool = pool - n * unit
    else
      own = own - n * unit
    end
    if op == CHARGE then granted = asked elseif op ~= RETURN then granted = n end
  end
  missing = missing + before - own + q - pool
  if own < burst then latest = max(latest, ceil_div(burst - own, r)) end
  latest = max(latest, ceil_div(missing, rate))
  local balance = floor(own / unit)
  if own >= 0 then balance = balance + floor(pool / unit) end
  local reset = missing > 0 and t - now + latest or 0
  if not ok then
    if n <= floor(burst / unit) then
      retry = t - now + ceil_div(n * unit - own, r)
    elseif n <= floor(most / unit) then
      retry = reset
    else
      retry = NEVER
    end
  elseif op ~= PEEK and asked > 0 then
    for i = #s, 2 * (#p - 6) / 3 + 5, -1 do s[i] = nil end
    at = 5
    s[1], s[2], s[3], s[4] = t, p[1], unit, pool
    for i = 7, #p, 3 do
      local level = p[i + 2]
      if i == mine then
        level = own
      elseif used then
        level = refill(p[i + 1], level, u[at + 1], most, most, d)
      end
      s[at], s[at + 1] = p[i], level
      at = at + 2
    end
  end
  return ok, granted, balance, retry, reset, 0
end

local function shift(s, p, d)
  if s[1] and s[1] > 0 then s[1] = max(1, s[1] - d) end
end

return { decide = decide, shift = shift }
