-- Twin of internal/algo/sliding_window.go, where the idea and the formula are.
--
-- State: s[1] the number of the newest segment, plus one; from s[2] on the counts
-- of the newest segment and of those before it, newest first.
-- Params: count, length of a segment µs, segments that count in full, segments
-- kept (one more if weighted), where the count of one segment saturates.

local floor = math.floor

-- fits returns the first instant at which n <= count tokens fit that do not fit now.
-- s[i + 2 - back] is the segment i before the current one.
local function fits(s, p, current, back, n)
  local length, segments = p[2], p[3]
  local room, weighted = p[1] - n, p[4] > segments
  for i = back, segments - 1 do room = room - s[i + 2 - back] end
  local k = 0
  while true do
    if room >= 0 then
      local share, i = length, segments - k
      local old = weighted and i >= back and s[i + 2 - back] or 0
      if old > room then share = use('emission').scale(length, room, old) end
      return (current + k + 1) * length - share
    end
    local i = segments - 1 - k
    if i >= back then room = room + s[i + 2 - back] end
    k = k + 1
  end
end

-- advance makes the current segment the newest.
local function advance(s, ring, current, back)
  for j = ring + 1, 2, -1 do s[j] = j - back >= 2 and s[j - back] or 0 end
  s[1] = current + 1
end

-- give removes n tokens from the segment of the instant at; 0 is the newest segment.
local function give(s, p, n, at)
  local ring = p[4]
  if at ~= 0 then
    local j = s[1] + 1 - floor(at / p[2])
    if at > 0 and j >= 2 and j <= ring + 1 then s[j] = n < s[j] and s[j] - n or 0 end
    return
  end
  for j = 2, ring + 1 do
    if s[j] >= n then
      s[j] = s[j] - n
      return
    end
    s[j], n = 0, n - s[j]
  end
end

local function decide(s, p, op, now, n, at)
  local count, length, segments, ring = p[1], p[2], p[3], p[4]
  local newest = (s[1] or 0) - 1
  local current = floor(now / length)
  if current < newest then current = newest end
  local back = current - newest
  if op == RETURN then
    advance(s, ring, current, back)
    give(s, p, n, at)
    back = 0
  end
  local left = count
  for j = 2, segments + 1 - back do left = left - (s[j] or 0) end
  local old = ring > segments and back <= segments and s[segments + 2 - back] or 0
  if old > 0 then
    local elapsed = now - current * length
    if elapsed < 0 then elapsed = 0 end
    local share = old * (length - elapsed)
    if share <= MAX_INSTANT then
      left = left + floor(-share / length)
    else
      local whole, rest = use('emission').scale(old, length - elapsed, length)
      left = left - whole - (rest > 0 and 1 or 0)
    end
  end
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
  end
  if not ok then
    local want = op == TAKE_UP_TO and 1 or n
    retry = want > count and NEVER or fits(s, p, current, back, want) - now
  elseif granted > 0 then
    if back > 0 then advance(s, ring, current, back) end
    local used = s[2]
    s[2] = granted > p[5] - used and p[5] or used + granted
    left = left - s[2] + used
  end
  local reset = 0
  for j = 2, #s do
    if s[j] > 0 then
      reset = (s[1] + 1 - j + ring) * length - now
      if reset < 0 then reset = 0 end
      break
    end
  end
  return ok, granted, left, retry, reset, 0
end

local function shift(s, p, d)
  local segments = floor(d / p[2])
  if s[1] and s[1] > 0 then s[1] = math.max(1, s[1] - segments) end
  return segments * p[2]
end

return { decide = decide, shift = shift }
