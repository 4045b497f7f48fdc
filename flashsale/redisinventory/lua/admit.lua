-- Admits the first tickets of the queue.
--
-- ARGV: 4 batch, 5 how many, 6 until, in ms
-- Returns: {'ok', now, how many}.

local s, why = here(load('paused', 'fixed', 'server'))
if not s then return {'stale', why} end
local till = tonumber(ARGV[6])
if s.paused == 1 or s.now < s.starts or s.now >= s.ends or till <= s.now then
  return {'ok', s.clock, '0'}
end
local names = redis.call('ZRANGEBYSCORE', LINE, '-inf', '(+inf', 'LIMIT', 0, ARGV[5])
if #names == 0 then return {'ok', s.clock, '0'} end
local users, out = {}, {}
for i, r in ipairs(redis.call('HMGET', USERS, unpack(names))) do
  local before, after = string.match(r or '', '^w (%S+ %S+) %S+ (%S+ %S+ %S+) %S*$')
  users[2 * i - 1] = names[i]
  users[2 * i] = 'a ' .. before .. ' ' .. ARGV[6] .. ' ' .. after .. ' ' .. ARGV[4]
  out[2 * i - 1], out[2 * i] = ARGV[6], names[i]
end
redis.call('HSET', STATE, 'clock', s.clock)
redis.call('HSET', USERS, unpack(users))
redis.call('ZREMRANGEBYRANK', LINE, 0, #names - 1)
-- Removes more expired admissions than it adds, so that they do not pile up.
local over = redis.call('ZRANGEBYSCORE', OUT, '-inf', num(s.now), 'LIMIT', 0, 2 * #names + 100)
if #over > 0 then redis.call('ZREM', OUT, unpack(over)) end
redis.call('ZADD', OUT, unpack(out))
return {'ok', s.clock, num(#names)}
