-- Twin of internal/algo/limit_req.go, where the idea and the formula are.
--
-- State: s[1] ms of the last admission, s[2] the backlog, in thousandths.
-- Params: the rate in thousandths per second, the room and the largest backlog in
-- thousandths, 1 for a queue or 0, (1 + free)·1000.
--
-- Every product is below 2^53 by the choice of the largest backlog.

local floor = math.floor

-- drained returns the ms after which a backlog is empty.
local function drained(p, backlog)
  return floor((backlog * 1000 + p[1] - 1) / p[1])
end

local function decide(s, p, op, now, n)
  local rate, room = p[1], p[2]
  local clock = floor(now / 1000)
  if clock < 1 then clock = 1 end
  local last, was, ms = s[1] or 0, s[2] or 0, 0
  if was == 0 then
    last = clock
  else
    ms = clock - last
    if ms < -60000 then ms = 1 elseif ms < 0 then ms = 0 end
  end
  local backlog = 0
  if ms < drained(p, was) then
    backlog = was - floor(rate * ms / 1000)
    if backlog < 0 then backlog = 0 end
  end
  if n == 0 then op = PEEK end
  local ok, granted, retry, delay, after = true, 0, 0, 0, backlog
  if op <= PEEK then
    local want = n
    if op == TAKE_UP_TO then
      want = floor((room - backlog) / 1000)
      if want > n then want = n end
      if want < 1 then want = 1 end
    end
    if want * 1000 > room then
      ok, retry = false, NEVER
    elseif want > 0 and backlog + want * 1000 > room then
      ok, retry = false, (last + drained(p, was + want * 1000 - room)) * 1000 - now
    elseif want > 0 then
      after = backlog + want * 1000
      if p[4] == 1 and after > p[5] then delay = floor((after - p[5]) * 1000 / rate) * 1000 end
      if op == PEEK then after = backlog else granted = want end
    end
  else
    local size = (n > MAX_COUNT and MAX_COUNT or n) * 1000
    if op == CHARGE then
      granted = n
      after = backlog + size
      if after > p[3] then after = p[3] end
      if after < backlog then after = backlog end
    else
      after = backlog - size
      if after < 0 then after = 0 end
    end
  end
  local balance = floor((room - after) / 1000)
  if not ok or op == PEEK then
    after = was
  else
    if ms ~= 0 then last = clock end
    if after == 0 then last = 0 end
    s[1], s[2] = last, after
  end
  local reset = 0
  if after > 0 then
    reset = (last + drained(p, after)) * 1000 - now
    if reset < 0 then reset = 0 end
  end
  return ok, granted, balance, retry, reset, delay
end

local function shift(s, p, d)
  local ms = floor(d / 1000)
  if s[1] and s[1] > 0 then s[1] = math.max(1, s[1] - ms) end
  return ms * 1000
end

return { decide = decide, shift = shift }
