-- Twin of internal/algo/warmup_bucket.go, where the idea and the formula are.
--
-- State: s[1] µs and s[2] units of the next free instant, s[3] the units missing
-- from cold; s[4] what a migration rounded up, if anything.
-- Params: k, T as µs and units, burst, most, the warm-up W in µs, and the cost of a Take
-- of the burst from a cold bucket, as µs and units.
--
-- W·k is at most 2^44, and so is everything that is stored.

local floor = math.floor
local e = use('emission')
local add, sub, cost = e.add, e.sub, e.cost

-- stored returns n·T in units, at most limit.
local function stored(p, n, limit)
  local q = p[2] * p[1] + p[3]
  if n > p[5] then n = p[5] end
  if n > floor(limit / q) then return limit end
  return n * q
end

-- extra returns the cost beyond y of taking y of the s stored units: the quadratic term,
-- rounded up. It divides the product seven bits at a time.
local function extra(p, s, y)
  local k = p[1]
  local w = p[6] * k
  local above, below = 2 * s - w, 2 * (s - y) - w
  if above <= 0 then return 0, 0 end
  if below < 0 then below = 0 end
  local x, z, n, r = above - below, above + below, 0, 0
  if x * z <= MAX_INSTANT then
    n = floor(x * z / (2 * w))
    r = x * z - n * 2 * w
  else
    local place = 4398046511104
    while place >= 1 do
      local digit = floor(x / place)
      x = x - digit * place
      r = r * 128 + digit * z
      local c = floor(r / (2 * w))
      n, r = n * 128 + c, r - c * 2 * w
      place = place / 128
    end
  end
  if r > 0 then n = n + 1 end
  local us = floor(n / k)
  return us, n - us * k
end

-- spend returns the state after n tokens are taken.
local function spend(p, d, dr, m, n)
  local k = p[1]
  local cold = p[6] * k - m
  local y = stored(p, n, cold)
  local us, rem = extra(p, cold, y)
  d, dr = add(k, d, dr, us, rem)
  us, rem = cost(k, p[2], p[3], p[5], n)
  d, dr = add(k, d, dr, us, rem)
  return d, dr, m + y
end

-- store returns the state after n tokens are returned.
local function store(p, d, dr, m, n)
  local k = p[1]
  local w, y, us, rem = p[6] * k, stored(p, n, m), 0, 0
  if m < w then
    us, rem = extra(p, w - m + y, y)
    d, dr = sub(k, d, dr, us, rem)
  end
  us, rem = cost(k, p[2], p[3], p[5], n)
  d, dr = sub(k, d, dr, us, rem)
  if d < 0 then d, dr = 0, 0 end
  return d, dr, m - y
end

local function decide(s, p, op, now, n)
  local k, burst = p[1], p[4]
  local d, dr, m = (s[1] or 0) - now, s[2] or 0, s[3] or 0
  if d < 0 then
    local us, rem = sub(k, 0, 0, d, dr)
    if us >= p[6] then
      m = 0
    else
      m = m - us * k - rem
      if m < 0 then m = 0 end
    end
    d, dr = 0, 0
  end
  local ok, granted, retry = true, 0, 0
  if op == CHARGE then
    granted = n
    local nd, ndr
    nd, ndr, m = spend(p, d, dr, m, n)
    if nd < MAX_SPAN then
      d, dr = nd, ndr
    elseif d < MAX_SPAN then
      d, dr = MAX_SPAN, 0
    end
  elseif op == RETURN then
    d, dr, m = store(p, d, dr, m, n)
  elseif n > 0 then
    local want = n
    if op == TAKE_UP_TO and want > burst then want = burst end
    if want > burst then
      ok, retry = false, NEVER
    elseif d > 0 or dr > 0 then
      ok, retry = false, dr > 0 and d + 1 or d
    elseif op ~= PEEK then
      granted = want
      d, dr, m = spend(p, d, dr, m, want)
    end
  end
  local balance = burst
  if d > 0 or dr > 0 then
    local us, rem = sub(k, p[7], p[8], d, dr)
    balance = us < 0 and e.tokens(k, p[2], p[3], us, rem) or 0
  end
  local us = floor(m / k)
  local until_us, until_rem = add(k, d, dr, us, m - us * k)
  local reset = until_rem > 0 and until_us + 1 or until_us
  if ok and op ~= PEEK then
    if s[4] and (reset == 0 or s[1] < now) then s[4] = nil end
    if reset == 0 then
      s[1], s[2], s[3] = 0, 0, 0
    else
      s[1], s[2], s[3] = now + d, dr, m
    end
  end
  return ok, granted, balance, retry, reset, 0
end

local function shift(s, p, d)
  if s[1] and s[1] > 0 then s[1] = math.max(1, s[1] - d) end
end

return { decide = decide, shift = shift }
