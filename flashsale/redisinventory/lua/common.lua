-- The beginning of every script that uses a whole state.
--
-- KEYS: 1 state, 2 users, 3 line, 4 out, 5 res, 6 done, 7 stream, 8 seen: of one sale, in one
-- slot.
-- ARGV: 1 epoch
--       2 the time in µs of who tests, or empty: that of this server
--       3 the largest time in µs that the caller has seen of this sale
--
-- Returns: {'ok', now in µs, …}, or {'stale', why} and nothing has changed.
--
-- A user is "place ticket rank until seen last returned held batch": place is w (waits), a
-- (admitted), s (spent) or - (none); until is the end of the admission in ms; from seen in ms
-- on the ticket is absent (0: it needs no presence); last is what the ticket reserved; returned
-- is how many reservations the user left unpaid; held is what the user holds, with commas between. A reservation is "held slot at payby epoch user ticket
-- key": held is h, or r if it was returned; slot has / and the quantity behind it if that is not 1;
-- times in ms. None is -, and a key may be empty.
-- Spaces in users, batches and keys are escaped by the caller. The member of empty name in
-- users, line, out, res, done and seen keeps them there when they are empty.
--
-- The first write of a script is one that a server without memory refuses, so that it
-- refuses all or nothing.

local STATE, USERS, LINE, OUT, RES, DONE, STREAM, SEEN = unpack(KEYS)

-- num formats a whole number up to 2^53, which tostring would round.
local function num(n)
  return string.format('%d', n)
end

-- server returns the replication ID of this server.
local function server()
  local info = redis.call('INFO', 'replication')
  local _, before = string.find(info, 'master_replid:', 1, true)
  return string.match(info, '^%x+', before + 1)
end

-- clock returns the time in µs, which never goes back.
local function clock(seen)
  local us = tonumber(ARGV[2])
  if not us then
    local t = redis.call('TIME')
    us = t[1] * 1000000 + t[2]
  end
  return math.max(us, tonumber(ARGV[3]), seen)
end

-- shut closes the state for all processes.
local function shut(why)
  redis.call('HSET', STATE, 'closed', '1', 'why', why)
  return nil, why
end

-- load returns the state at the epoch, with the time in µs (us, and clock as text) and in ms
-- (now), and the named fields. Without a state it returns nil and the reason. The field "fixed"
-- holds what only an edit of the sale changes.
local function load(...)
  local v = redis.call('HMGET', STATE, 'epoch', 'closed', 'clock', ...)
  if v[1] ~= ARGV[1] then return nil, 'none' end
  if v[2] ~= '0' then return nil, 'closed' end
  if redis.call('EXISTS', unpack(KEYS)) < #KEYS then return shut('damaged') end
  local s = {}
  for i = 1, select('#', ...) do
    local name, value = select(i, ...), v[3 + i]
    if name == 'server' then
      s.server = value
    elseif name == 'fixed' then
      local starts, ends, lobby, shuffled, per_user, pay, headroom, token_for =
        string.match(value or '', '^(%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) (%d+)$')
      if not starts then return shut('damaged') end
      s.starts, s.ends, s.lobby = tonumber(starts), tonumber(ends), tonumber(lobby)
      s.shuffled, s.per_user, s.pay = shuffled == '1', tonumber(per_user), tonumber(pay)
      s.headroom, s.token_for = tonumber(headroom), tonumber(token_for)
    else
      s[name] = tonumber(value or nil)
      if not s[name] then return shut('damaged') end
    end
  end
  local seen = tonumber(v[3] or nil)
  if not seen then return shut('damaged') end
  s.us = clock(seen)
  s.now = math.floor(s.us / 1000)
  s.clock = num(s.us)
  return s
end

-- here returns s, a loaded state, if it was opened on this server.
local function here(s, why)
  if s and s.server ~= server() then return shut('server') end
  return s, why
end

-- user parses a user, whose numbers stay strings. For an unknown user new is set.
local function user(name)
  local r = redis.call('HGET', USERS, name)
  if not r then
    return {place = '-', ticket = '-', rank = '0', till = '0', seen = '0', last = '-', returned = '0',
      held = '-', batch = '', new = true}
  end
  local place, ticket, rank, till, seen, last, returned, held, batch =
    string.match(r, '^(%S+) (%S+) (%d+) (%d+) (%d+) (%S+) (%d+) (%S+) (%S*)$')
  if not place then error('attempt to read a user that is none') end
  return {place = place, ticket = ticket, rank = rank, till = till, seen = seen, last = last,
    returned = returned, held = held, batch = batch}
end

-- keep stores a user.
local function keep(name, u)
  redis.call('HSET', USERS, name, table.concat(
    {u.place, u.ticket, u.rank, u.till, u.seen, u.last, u.returned, u.held, u.batch}, ' '))
end

-- holding returns the IDs of the reservations that a user holds.
local function holding(u)
  local ids = {}
  if u.held ~= '-' then
    for id in string.gmatch(u.held, '[^,]+') do ids[#ids + 1] = id end
  end
  return ids
end

-- units returns how many units a reservation has.
local function units(record)
  return tonumber(string.match(record, '^%S+ %d+/(%d+)') or 1)
end

-- holds returns how many units these reservations have.
local function holds(held)
  local n = 0
  for _, h in ipairs(held) do n = n + units(redis.call('HGET', RES, h)) end
  return n
end

-- slot_of formats the slot of a reservation with its quantity.
local function slot_of(slot, quantity)
  if quantity == 1 then return num(slot) end
  return num(slot) .. '/' .. num(quantity)
end

-- unused_slot returns a slot that none of these reservations has: the wanted one, or the lowest.
local function unused_slot(held, wanted, max)
  local slot, taken = 1, {}
  for _, h in ipairs(held) do
    taken[tonumber(string.match(redis.call('HGET', RES, h), '^%S+ (%d+)'))] = true
  end
  if wanted and wanted >= 1 and wanted <= max and not taken[wanted] then return wanted end
  while taken[slot] do slot = slot + 1 end
  return slot
end
