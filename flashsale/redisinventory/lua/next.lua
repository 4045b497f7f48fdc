-- Delivers entries of the stream: first those that a worker has had for too long, then new
-- ones.
--
-- KEYS: 1 state, 2 stream
-- ARGV: 1 epoch, 2 the group of the stream, which says its epoch too, 3 worker, 4 how many
--       5 how long in ms an entry stays with who took it, 6 where to look on for such, or
--       empty to look for none
-- Returns: {'ok', '0', where to look on, and of each entry its ID, deliveries, and what is
-- in it: "r", and a record; or "?" and the names of its fields}.

local state = redis.pcall('HMGET', KEYS[1], 'epoch', 'closed')
local open = state[1] == ARGV[1] and state[2] == '0'
local group, worker, max = ARGV[2], ARGV[3], tonumber(ARGV[4])

-- failed returns the reply for an error. Both reading commands refuse if there is no stream, or
-- one of another epoch.
local function failed(reply)
  if string.find(reply.err, 'NOGROUP', 1, true) then return {'stale', 'none'} end
  return reply
end

local idle = {'0-0', {}}
if ARGV[6] ~= '' then
  idle = redis.pcall('XAUTOCLAIM', KEYS[2], group, worker, ARGV[5], ARGV[6], 'COUNT', max)
  if idle.err then return failed(idle) end
end
if not open and redis.call('XLEN', KEYS[2]) == 0 then
  return {'stale', redis.call('EXISTS', KEYS[2]) == 1 and 'closed' or 'none'}
end

local reply = {'ok', '0', idle[1]}
local function add(id, times, fields)
  local kind, text = 'r', fields[2]
  if #fields ~= 2 or fields[1] ~= 'r' then
    kind, text = '?', string.sub(table.concat(fields, ' '), 1, 200)
  end
  for _, v in ipairs({id, times, kind, text}) do reply[#reply + 1] = v end
end
for _, e in ipairs(idle[2]) do
  if e and e[2] then
    local p = redis.call('XPENDING', KEYS[2], group, e[1], e[1], 1)
    add(e[1], string.format('%d', p[1] and p[1][4] or 1), e[2])
    max = max - 1
  end
end
if max > 0 then
  local new = redis.pcall('XREADGROUP', 'GROUP', group, worker, 'COUNT', max, 'STREAMS', KEYS[2], '>')
  if new and new.err then return failed(new) end
  for _, e in ipairs(new and new[1][2] or {}) do add(e[1], '1', e[2]) end
end
return reply
