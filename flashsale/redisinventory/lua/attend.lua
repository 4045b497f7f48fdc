-- Records that a worker works, and removes the workers that have stopped.
--
-- KEYS: 1 workers, a sorted set: the time in µs of the last call of each
-- ARGV: 1 the time in µs of who tests, or empty: that of this server
--       2 worker, 3 how long in µs after its last call a worker has stopped
-- Returns: {'ok', '0', 1 if the worker was not in the set or 0, how many have stopped}.

local us = tonumber(ARGV[1])
if not us then
  local t = redis.call('TIME')
  us = t[1] * 1000000 + t[2]
end
local new = redis.call('ZADD', KEYS[1], string.format('%d', us), ARGV[2])
local over = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', us - ARGV[3]), 'LIMIT', 0, 1000)
if #over > 0 then redis.call('ZREM', KEYS[1], unpack(over)) end
redis.call('PEXPIRE', KEYS[1], 86400000)
return {'ok', '0', string.format('%d', new), string.format('%d', #over)}
