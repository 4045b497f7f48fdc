-- Twin of internal/algo/primed.go, where the idea and the formula are.
--
-- State: s[1] µs until which the key counts as used, then the inner words.
-- Params: capacity - initial, the idle period in µs, then the inner params.
--
-- The first use of a key is stored even if the request is denied: decide then changes s and
-- returns true as its seventh value. A request of 0 tokens is a Peek.

-- tail returns a list without its first n values.
local function tail(list, n)
  local out = {}
  for i = n + 1, #list do out[i - n] = list[i] end
  return out
end

-- put makes s the state of a key used until seen, with the inner words t.
local function put(s, seen, t)
  s[1] = seen
  for i = 1, math.max(#t, #s - 1) do s[i + 1] = t[i] end
end

return function(inner)
  -- first returns the inner state of a key with a debt at now, and its reset.
  local function first(q, now, owed)
    local t = {}
    local _, _, _, _, reset = inner.decide(t, q, CHARGE, now, owed, 0, 0, 0)
    return t, reset
  end

  local function decide(s, p, op, now, n, at, id, ttl)
    if n == 0 then op = PEEK end
    local q, t = tail(p, 2), nil
    local fresh = (s[1] or 0) <= now
    if fresh then
      t = first(q, now, p[1])
    else
      t = tail(s, 1)
    end
    local ok, granted, balance, retry, reset, delay = inner.decide(t, q, op, now, n, at, id, ttl)
    if op == PEEK then
      return ok, granted, balance, retry, fresh and 0 or s[1] - now, delay
    end
    local keep = ok or fresh
    if keep then put(s, now + reset + p[2], t) end
    return ok, granted, balance, retry, s[1] - now, delay, keep
  end

  local function shift(s, p, d)
    if s[1] and s[1] > 0 then
      local t = tail(s, 1)
      d = inner.shift(t, tail(p, 2), d) or d
      put(s, math.max(1, s[1] - d), t)
    end
    return d
  end

  local function carried(s, p, now, owed)
    local t, reset = first(tail(p, 2), now, math.max(0, owed))
    put(s, now + reset + p[2], t)
  end

  return { decide = decide, shift = shift, carried = carried, primes = true }
end
