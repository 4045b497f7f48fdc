-- Twin of internal/algo/leaky_bucket.go, where the idea and the formula are.
--
-- State: that of token_bucket.
-- Params: those of token_bucket, with burst + 1 for its burst; then p[8] 1 for a
-- queue or 0, p[9] µs and p[10] units of (1 + free)·T.

local token = use('token_bucket')

-- delay returns the delay of n tokens that are taken at now.
local function delay(s, p, op, now, n)
  local d, rem = (s[1] or 0) - now, s[2] or 0
  if d < 0 then d, rem = 0, 0 end
  if op == PEEK then
    local e = use('emission')
    local c, cr = e.cost(p[1], p[2], p[3], p[7], n)
    d, rem = e.add(p[1], d, rem, c, cr)
  end
  d, rem = d - p[9], rem - p[10]
  if rem > 0 then d = d + 1 end
  return d > 0 and d or 0
end

local function decide(s, p, op, now, n)
  local ok, granted, balance, retry, reset = token.decide(s, p, op, now, n)
  if ok and p[8] == 1 and n > 0 and op <= PEEK then
    return ok, granted, balance, retry, reset, delay(s, p, op, now, n)
  end
  return ok, granted, balance, retry, reset, 0
end

return { decide = decide, shift = token.shift }
