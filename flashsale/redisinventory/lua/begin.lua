-- Checks whether a state can be built: the first step of Open.
--
-- Returns: 'here' if there is one of this epoch; else {'ok', now, the server's ID, what it
-- does when its memory is full, its limit of memory in bytes}.

-- A key of another type, or a hash without that number, is not a state and can be replaced.
local epoch = redis.pcall('HGET', STATE, 'epoch')
if type(epoch) ~= 'string' then epoch = '0' end
if epoch == ARGV[1] then
  local s, why = here(load('server'))
  if not s then return {'stale', why} end
  return {'here', s.clock}
end
if (tonumber(epoch) or 0) > tonumber(ARGV[1]) then return {'stale', 'none'} end
local info = redis.call('INFO', 'memory')
return {'ok', '0', server(), string.match(info, 'maxmemory_policy:(%S+)') or '',
  string.match(info, 'maxmemory:(%d+)') or '0'}
