-- Twin of internal/algo/fixed_window.go, where the idea and the formula are.
--
-- State: s[1] the end of the window, µs; s[2] the tokens used in it.
-- Params: count, period µs, 1 if windows begin at multiples of it else 0; or, of
-- a calendar, count, 0, and the bounds of consecutive windows, µs.

local floor = math.floor

-- window returns the bounds of the calendar window of an instant. An instant outside of
-- the listed windows is an error.
local function window(p, t)
  if #p == 2 then return t + 1, t + 1 end -- a former limit: its windows are unknown, and nothing is given back
  for i = 4, #p do
    if p[i - 1] <= t and t < p[i] then return p[i - 1], p[i] end
  end
  error(string.format('weir: clock: got %d, want an instant of the calendar windows from %d to %d', t, p[3], p[#p]), 0)
end

-- end_of returns the end of a window that begins now.
local function end_of(p, now)
  local period = p[2]
  if period == 0 then
    local _, stop = window(p, now)
    return stop
  elseif p[3] == 1 then
    return (floor(now / period) + 1) * period
  end
  return now + period
end

local function decide(s, p, op, now, n, at)
  local count, period = p[1], p[2]
  local stop, used = s[1] or 0, s[2] or 0
  if stop <= now then stop, used = 0, 0 end
  local left = count - used
  local ok, granted, retry = true, 0, 0
  if op == TAKE then
    if n <= left or n == 0 then granted = n else ok = false end
  elseif op == TAKE_UP_TO then
    granted = n < left and n or left > 0 and left or 0
    ok = granted > 0 or n == 0
  elseif op == PEEK then
    ok = n <= left or n == 0
  elseif op == CHARGE then
    granted = n
  elseif used > 0 then
    local start = 0
    if at == 0 then at = now elseif period > 0 then start = stop - period else start = window(p, stop - 1) end
    if start <= at and at < stop then used = n < used and used - n or 0 end
  end
  if not ok then
    retry = op ~= TAKE_UP_TO and n > count and NEVER or stop - now
  elseif granted > 0 then
    if stop == 0 then stop = end_of(p, now) end
    used = used + granted
    if used > 2 * MAX_COUNT then used = 2 * MAX_COUNT end
  end
  local reset = used > 0 and stop - now or 0
  if ok and op ~= PEEK then
    if used > 0 then s[1], s[2] = stop, used else s[1], s[2] = 0, 0 end
  end
  return ok, granted, count - used, retry, reset, 0
end

local function shift(s, p, d)
  if s[1] and s[1] > 0 then s[1] = math.max(1, s[1] - d) end
end

return { decide = decide, shift = shift, stop = end_of }
