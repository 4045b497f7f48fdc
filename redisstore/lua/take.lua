-- One unit of one request, as takes.lua decides it: a Take of a caller, or equal ones of several. It
-- uses no table, and no function of Lua: they would cost more than its commands. For a single caller the
-- cache is cold, so it calls few functions of C: x - x % 1 is math.floor(x), exactly.

local call, format = redis.pcall, string.format

local clock, slack, rules, size, times, _, _, n, k, tu, tr, span, span_rem, tail = struct.unpack('<i8i8I4I2I2I2I4i8i8i8i8i8i8s', ARGV[1])
if rules ~= 39 or size > 0 then return use('takes') end
if clock == 0 then
  local t = call('TIME')
  clock = t[1] * 1000000 + t[2]
end

local v = call('GET', KEYS[1])
local d, rem, slot = 0, 0, nil
if v then
  local us, last, more
  if type(v) == 'string' then us, rem, last, more = string.match(v, '^%[(%d+),(%d+),(%d+)(.*)$') end
  if more ~= tail or last + 0 > clock then return struct.pack('<i8i8I2I2', clock, 0, 1, 0) end
  us = us + 0
  d, slot = us - clock, us / 1024000
  slot = slot - slot % 1
  if d < 0 or d == 0 and k == 0 then d, rem = 0, 0 elseif rem == '0' then rem = 0 else rem = rem + 0 end
end

local fits
if k == 1 then
  fits = (span - d) / tu / n
elseif k == 0 then
  fits = (tu - rem) / n
else
  fits = use('token_bucket').balance({ k, tu, tr }, span - d, span_rem - rem) / n
end
fits = fits - fits % 1
if fits > times then fits = times elseif fits < 0 then fits = 0 end

if fits > 0 then
  n = fits * n
  if k == 1 then
    d = d + n * tu
  elseif k == 0 then
    if d == 0 then
      d = tr
      if span == 1 then d = tr - clock % tr end
    end
    rem = rem + n
  else
    local cost, units = n * tu, n * tr
    if units > MAX_INSTANT then
      cost, units = use('emission').product(k, tu, tr, n)
    else
      local whole = units / k
      whole = whole - whole % 1
      cost, units = cost + whole, units - whole * k
    end
    d, rem = d + cost, rem + units
    if rem >= k then d, rem = d + 1, rem - k end
  end
  local due = clock + d
  local ends = due / 1024000
  ends = ends - ends % 1
  local text = format('[%d,%d,%d', due, rem, clock) .. tail
  local done
  if ends == slot then
    done = call('SET', KEYS[1], text, 'KEEPTTL')
  else
    done = call('SET', KEYS[1], text, 'PX', format('%d', ends * 1024 + 1025 + slack - (clock - clock % 1000) / 1000))
  end
  if done.err then return done end
end
return struct.pack('<i8i8I2', clock, fits, 0) .. (v or '')
