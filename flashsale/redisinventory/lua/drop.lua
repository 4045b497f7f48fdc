-- Deletes the state, open or closed, unless its stream has entries.
--
-- Returns: {'ok', '0', how many entries are in the stream: if there are any, nothing changed}.

if redis.call('HGET', STATE, 'epoch') ~= ARGV[1] then return {'stale', 'none'} end
local n = redis.call('XLEN', STREAM)
if n == 0 then redis.call('UNLINK', unpack(KEYS)) end
return {'ok', '0', num(n)}
