-- Renames the keys of a state that was built: the last step of Open.
--
-- KEYS: 9 to 16: as 1 to 8, of the new state.
-- ARGV: 4 the ID of the server on which it was built
--       5 how long in ms after its end a state is kept
--       6 how many reservations it has, 7 how many of them are in the stream
--       8 the group of the stream
--       9 paused (1 or 0), 10 stock, 11 start in ms, 12 end in ms, 13 how long in ms before
--       the start one may join, 14 shuffled (1 or 0), 15 units per user, 16 time for paying
--       in ms, 17 admissions per unit, 18 time of an admission in ms, 19 how many units are paid,
--       20 the version of the sale, 21 how many units its reservations have
-- Returns: {'ok', now}, {'here', now}, {'unread', n} if there are n entries in the stream of
-- the state that is there, or {'moved'} if this is another server or what was built is not
-- whole.

local epoch = redis.pcall('HGET', STATE, 'epoch')
if type(epoch) ~= 'string' then epoch = '0' end
if epoch == ARGV[1] then
  if redis.call('HGET', STATE, 'closed') ~= '0' then return {'stale', 'closed'} end
  return {'here', num(clock(0))}
end
if (tonumber(epoch) or 0) > tonumber(ARGV[1]) then return {'stale', 'none'} end
-- The entries of its stream were acknowledged to buyers.
if epoch ~= '0' and not redis.pcall('XPENDING', STREAM, 'clerks:' .. epoch).err then
  local left = redis.call('XLEN', STREAM)
  if left > 0 then return {'unread', num(left)} end
end
if server() ~= ARGV[4] or redis.call('HLEN', KEYS[13]) ~= tonumber(ARGV[6])
  or redis.call('XLEN', KEYS[15]) ~= tonumber(ARGV[7]) then
  return {'moved'}
end
local us = clock(0)

-- Redis searches a small hash from its start, so frequent fields come first.
redis.call('HSET', KEYS[9], 'epoch', ARGV[1], 'closed', '0', 'clock', num(us),
  'paused', ARGV[9], 'fixed', table.concat({unpack(ARGV, 11, 18)}, ' '),
  'free', num(tonumber(ARGV[10]) - tonumber(ARGV[21])), 'reserved', ARGV[21], 'server', ARGV[4],
  'top', '0', 'turns', '0', 'left', '0', 'stock', ARGV[10], 'paid', ARGV[19], 'terms', ARGV[20])
redis.call('HSET', KEYS[10], '', '')
redis.call('ZADD', KEYS[11], '+inf', '')
redis.call('ZADD', KEYS[12], '+inf', '')
redis.call('HSET', KEYS[13], '', '')
redis.call('HSET', KEYS[14], '', '')
redis.call('ZADD', KEYS[16], '+inf', '')
redis.call('XGROUP', 'CREATE', KEYS[15], ARGV[8], '0', 'MKSTREAM')
-- Renaming onto a large key would delete it while the server blocks.
redis.call('UNLINK', unpack(KEYS, 1, 8))
local left = math.max(tonumber(ARGV[12]) - us / 1000, 0) + tonumber(ARGV[5])
for i = 1, 8 do
  redis.call('RENAME', KEYS[8 + i], KEYS[i])
  redis.call('PEXPIRE', KEYS[i], num(math.ceil(left)))
end
return {'ok', num(us)}
