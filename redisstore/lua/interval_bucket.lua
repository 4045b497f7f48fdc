-- Twin of internal/algo/interval_bucket.go, where the idea and the formula are.
--
-- State: s[1] µs of the start of the period, s[2] the tokens missing from full.
-- Params: count, period µs, burst, 1 for periods from the epoch or 0, the most
-- tokens that can be missing.

local floor = math.floor

-- refilled returns the µs from the start of a period until n tokens are refilled.
local function refilled(p, n)
  return floor((n + p[1] - 1) / p[1]) * p[2]
end

local function decide(s, p, op, now, n)
  local period, burst = p[2], p[3]
  local start, missing = s[1] or 0, s[2] or 0
  if missing > 0 then
    local j = floor((now - start) / period)
    if j > 0 then
      if j * period >= refilled(p, missing) then
        missing = 0
      else
        start, missing = start + j * period, missing - j * p[1]
      end
    end
  end
  if missing == 0 then
    start = p[4] == 1 and now - now % period or now
  end
  local ok, granted, retry, after = true, 0, 0, missing
  if op == CHARGE then
    granted = n
    after = missing + (n > MAX_COUNT and MAX_COUNT or n)
    if after > p[5] then after = p[5] end
  elseif op == RETURN then
    after = missing - n
    if after < 0 then after = 0 end
  elseif n > 0 then
    local want = n
    if op == TAKE_UP_TO then
      if want > burst - missing then want = burst - missing end
      if want < 1 then want = 1 end
    end
    if want > burst then
      ok, retry = false, NEVER
    elseif missing + want > burst then
      ok, retry = false, start + refilled(p, missing + want - burst) - now
    elseif op ~= PEEK then
      after, granted = missing + want, want
    end
  end
  local reset = 0
  if after > 0 then
    reset = start + refilled(p, after) - now
    if reset < 0 then reset = 0 end
  end
  if ok and op ~= PEEK then
    if after == 0 then start = 0 end
    s[1], s[2] = start, after
  end
  return ok, granted, burst - after, retry, reset, 0
end

local function shift(s, p, d)
  if s[2] and s[2] > 0 then s[1] = math.max(1, s[1] - d) end
end

return { decide = decide, shift = shift }
