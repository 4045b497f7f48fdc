-- Twin of internal/algo/token_bucket.go, where the idea and the formula are.
--
-- State: s[1] µs and s[2] units of the TAT; s[3] what a migration rounded up, if anything.
-- Params: k, T as µs and units, burst, cost(burst) as µs and units, most.
--
-- The arithmetic on pairs of emission.lua is inlined here: nearly every call runs it.

local floor = math.floor

-- balance returns the number of whole tokens in a gap; rem may be negative. The estimate
-- with doubles is off by at most one, and the exact cost corrects it.
local function balance(p, gap, rem)
  local k, tu, tr = p[1], p[2], p[3]
  if rem < 0 then gap, rem = gap - 1, rem + k end
  if k == 1 then
    local n = floor(gap / tu)
    return n < -MAX_COUNT and -MAX_COUNT or n
  elseif gap < 0 then
    return use('emission').tokens(k, tu, tr, gap, rem)
  end
  local n = floor((gap + rem / k) / (tu + tr / k))
  local units = n * tr
  if units > MAX_INSTANT then return use('emission').tokens(k, tu, tr, gap, rem) end
  local whole = floor(units / k)
  local over, over_rem = n * tu + whole - gap, units - whole * k - rem
  if over > 0 or over == 0 and over_rem > 0 then return n - 1 end
  over, over_rem = over + tu, over_rem + tr
  if over_rem >= k then over, over_rem = over + 1, over_rem - k end
  if over < 0 or over == 0 and over_rem <= 0 then return n + 1 end
  return n
end

local function decide(s, p, op, now, n)
  local k, most, span, span_rem = p[1], p[7], p[5], p[6]
  -- The debt at now: relative times are small enough for every product.
  local d, m = (s[1] or 0) - now, s[2] or 0
  if d < 0 then d, m = 0, 0 end
  local ok, granted, retry, want = true, 0, 0, n
  if op == TAKE_UP_TO then
    want = balance(p, span - d, span_rem - m)
    if want > n then want = n end
    if want < 0 then want = 0 end
    if want == 0 and n > 0 then want, ok = 1, false end
  end
  local count = want > most and most or want
  local cost, units = count * p[2], count * p[3]
  if units > MAX_INSTANT then
    cost, units = use('emission').product(k, p[2], p[3], count)
  elseif units > 0 then
    local whole = floor(units / k)
    cost, units = cost + whole, units - whole * k
  end
  if op == RETURN then
    d, m = d - cost, m - units
    if m < 0 then d, m = d - 1, m + k end
    if d < 0 then d, m = 0, 0 end
  else
    local after, rem = d + cost, m + units
    if rem >= k then after, rem = after + 1, rem - k end
    if op == CHARGE then
      granted = n
      if after < MAX_SPAN then
        d, m = after, rem
      elseif d < MAX_SPAN then
        d, m = MAX_SPAN, 0
      end
    elseif want == 0 then
      granted = 0
    elseif want > p[4] then
      ok, retry = false, NEVER
    else
      local wait, wait_rem = after - span, rem - span_rem
      if wait_rem < 0 then wait, wait_rem = wait - 1, wait_rem + k end
      if wait > 0 or wait == 0 and wait_rem > 0 then
        ok, retry = false, wait_rem > 0 and wait + 1 or wait
      elseif op ~= PEEK then
        d, m, granted = after, rem, want
      end
    end
  end
  local reset = m > 0 and d + 1 or d
  if ok and op ~= PEEK then
    if s[3] and (reset == 0 or s[1] < now) then s[3] = nil end
    if reset == 0 then s[1], s[2] = 0, 0 else s[1], s[2] = now + d, m end
  end
  return ok, granted, balance(p, span - d, span_rem - m), retry, reset, 0
end

local function shift(s, p, d)
  if s[1] and s[1] > 0 then s[1] = math.max(1, s[1] - d) end
end

return { decide = decide, shift = shift, balance = balance }
