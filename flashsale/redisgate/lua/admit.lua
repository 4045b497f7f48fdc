-- Admits the first of the line.
--
-- ARGV: 4 batch, 5 how many, 6 until, in ms
-- Returns: {'ok', now, how many}.

local s, why = load('paused', 'fixed', 'server')
if not s then return {'stale', why} end
local till = tonumber(ARGV[6])
if s.paused == 1 or s.now < s.starts or s.now >= s.ends or till <= s.now then
  return {'ok', num(s.us), '0'}
end
local names = redis.call('ZRANGEBYSCORE', LINE, '-inf', '(+inf', 'LIMIT', 0, ARGV[5])
if #names == 0 then return {'ok', num(s.us), '0'} end
redis.call('HSET', STATE, 'clock', num(s.us))
local out = {}
for i, name in ipairs(names) do
  local u = user(name)
  u.place, u.batch, u.till = 'a', ARGV[4], till
  keep(name, u)
  out[2 * i - 1], out[2 * i] = num(till), name
end
redis.call('ZREM', LINE, unpack(names))
-- More go than come, so those whose time is over do not pile up.
local over = redis.call('ZRANGEBYSCORE', OUT, '-inf', num(s.now), 'LIMIT', 0, 2 * #names + 100)
if #over > 0 then redis.call('ZREM', OUT, unpack(over)) end
redis.call('ZADD', OUT, unpack(out))
return {'ok', num(s.us), num(#names)}
