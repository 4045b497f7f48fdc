-- Adds reservations to a state that is being built: a middle step of Open.
--
-- KEYS: 1 users, 2 res, 3 done, 4 stream: of the new state.
-- ARGV: 1 the ID of the server on which it is built
--       2 how long in ms it is kept if it is never finished
--       then for each: whether it goes to the stream (1 or 0), ID, user, ticket, key or
--       empty, record; or u, how many reservations the user returned, user and three empty
-- Returns: {'ok', '0'}, or {'moved'} if this is another server.

if string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') ~= ARGV[1] then
  return {'moved'}
end
for i = 3, #ARGV, 6 do
  local kind, id, name, ticket, key, record = unpack(ARGV, i, i + 5)
  local returned, held = string.match(redis.call('HGET', KEYS[1], name) or '', ' (%d+) (%S+) $')
  if kind == 'u' then
    returned, held = id, held or '-'
  else
    redis.call('HSET', KEYS[2], id, record)
    redis.call('HSET', KEYS[3], 't ' .. name .. ' ' .. ticket, id)
    if key ~= '' then redis.call('HSET', KEYS[3], 'k ' .. name .. ' ' .. key, id) end
    held = held and held ~= '-' and held .. ',' .. id or id
    if kind == '1' then redis.call('XADD', KEYS[4], '*', 'r', id .. ' ' .. record) end
  end
  redis.call('HSET', KEYS[1], name, '- - 0 0 0 - ' .. (returned or '0') .. ' ' .. held .. ' ')
end
for _, k in ipairs(KEYS) do redis.call('PEXPIRE', k, ARGV[2]) end
return {'ok', '0'}
