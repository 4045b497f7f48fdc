-- Twin of internal/algo/concurrency.go, where the idea and the formula are.
--
-- State: three words per slot, the first to expire first: expiry µs, id (0:
-- anonymous), tokens.
-- Params: count, lease µs.

-- remove removes w words from s, starting at i.
local function remove(s, i, w)
  local size = #s
  for j = i, size - w do s[j] = s[j + w] end
  for j = size, size - w + 1, -1 do s[j] = nil end
end

-- insert adds a slot. At 20,000 slots it extends the anonymous slot that expires last.
local function insert(s, expiry, id, n)
  local size = #s
  if size >= 60000 then
    local last = size - 2
    while s[last + 1] ~= 0 do last = last - 3 end
    expiry, n = math.max(expiry, s[last]), n + s[last + 2]
    remove(s, last, 3)
    size = size - 3
  end
  local i = size + 1
  while i > 1 and s[i - 3] >= expiry do
    i = i - 3
    if id == 0 and s[i + 1] == 0 and s[i] == expiry then
      s[i + 2] = s[i + 2] + n
      return
    end
  end
  for j = size, i, -1 do s[j + 3] = s[j] end
  s[i], s[i + 1], s[i + 2] = expiry, id, n
end

-- give frees n anonymous tokens, the first to expire first, and returns their number.
local function give(s, p, n, at)
  local i, left = 1, n
  while i <= #s and left > 0 do
    if s[i + 1] == 0 and (at == 0 or at == s[i] - p[2]) then
      local g = left < s[i + 2] and left or s[i + 2]
      left, s[i + 2] = left - g, s[i + 2] - g
    end
    if s[i + 2] == 0 then remove(s, i, 3) else i = i + 3 end
  end
  return n - left
end

local function decide(s, p, op, now, n, at, id, ttl)
  local count = p[1]
  local size, from, used, held = #s, 1, 0, nil
  while from <= size and s[from] <= now do from = from + 3 end
  for i = from, size, 3 do
    used = used + s[i + 2]
    if id ~= 0 and s[i + 1] == id then held = i end
  end
  local left = count - used
  local ok, granted, retry, want = true, 0, 0, n
  local renews = false
  if op == TAKE or op == TAKE_UP_TO then
    renews = held and n > 0
    if op == TAKE_UP_TO then
      granted = n < left and n or left > 0 and left or 0
      want = 1
    elseif n <= left then
      granted = n
    end
    ok = granted > 0 or n == 0 or renews
  elseif op == PEEK then
    ok = n <= left or n == 0 or held ~= nil
  elseif op == CHARGE then
    granted, id = n, 0
  end
  if not ok then
    if want > count then
      retry = NEVER
    else
      local i, lack = from, used + want - count - s[from + 2]
      while lack > 0 do
        i = i + 3
        lack = lack - s[i + 2]
      end
      retry = s[i] - now
    end
  elseif op ~= PEEK then
    if from > 1 then remove(s, 1, from - 1) end
    if ttl <= 0 then ttl = p[2] elseif ttl > MAX_SPAN then ttl = MAX_SPAN end
    if held then held = held - from + 1 end
    if renews then
      granted = s[held + 2]
      remove(s, held, 3)
      insert(s, now + ttl, id, granted)
    elseif op == RETURN and id ~= 0 then
      if held then
        granted = s[held + 2]
        remove(s, held, 3)
      end
      used = used - granted
    elseif op == RETURN then
      granted = give(s, p, n, at)
      used = used - granted
    elseif granted > 0 and used < 2 * MAX_COUNT then
      local more = granted
      if more > 2 * MAX_COUNT - used then more = 2 * MAX_COUNT - used end
      insert(s, now + ttl, id, more)
      used = used + more
    end
  end
  local reset = (s[#s - 2] or 0) - now
  return ok, granted, count - used, retry, reset > 0 and reset or 0, 0
end

-- has reports whether a live slot has the id.
local function has(s, p, now, id)
  for i = 1, #s, 3 do
    if s[i + 1] == id and s[i] > now then return true end
  end
  return false
end

local function shift(s, p, d)
  for i = 1, #s, 3 do s[i] = math.max(1, s[i] - d) end
end

return { decide = decide, shift = shift, has = has }
