-- Removes entries from the stream.
--
-- KEYS: 1 stream
-- ARGV: 1 the group of the stream, then the IDs of entries

local n = redis.pcall('XPENDING', KEYS[1], ARGV[1])
if n.err then
  if string.find(n.err, 'NOGROUP', 1, true) then return {'stale', 'none'} end
  return n
end
if #ARGV > 1 then
  redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))
  redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
end
return {'ok', '0'}
