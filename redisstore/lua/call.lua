-- The general path of a call: any number of requests of any verb.

local call, format, attempt, decode, unpack = redis.call, string.format, redis.pcall, cjson.decode, struct.unpack

local BAD_STATE = 'BADSTATE the value of the key is not a state of weir'
local clock, slack
local states = {}

-- cache has what all requests of a call share: the functions of a file by its name, and
-- a rule or the rest of a request by its index in ARGV.
local cache = {}

local function file(name)
  local f = cache[name]
  if not f then
    f = use(name)
    cache[name] = f
  end
  return f
end

local function rest(more)
  local x = cache[more]
  if not x then
    x = file('reservations').rest(more)
    cache[more] = x
  end
  return x
end

-- before has copies of the states that changed before the decisions of a batch. expired
-- has copies of the states whose reservations expired. They are written even if the batch
-- is denied.
local before, expired

-- keep makes a change that has no effect on decisions stay: in a batch that is denied, and if
-- whole is set, also in one that charges nothing.
local function keep(st, whole)
  local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
  st.dirty, st.reset = true, reset
  if expired then
    local c = file('reservations').copy(st)
    if whole then expired[st.key] = c end
    if before then before[st.key] = c end
  end
end

-- guard handles a clock that is behind the last write of a state, or was once. If it is
-- behind by no more than its refill time, the state stays at its instant. If it is behind by
-- more, the state moves back with the clock, and ahead becomes the span by which the clock
-- had advanced further. When the clock advances by that again, the state moves forward with
-- it: tokens for this span were given before. A part of it is indistinguishable from a key
-- that was not used, so only the first such step after each step back gives no tokens; ahead
-- is then negative.
--
-- A state that moves is written: otherwise every call would move it again, and it would never
-- refill. guard then returns the tokens of reservations that expired, and writes that too:
-- otherwise every denied call would repeat the work.
local function guard(st, refill, reservations)
  local step, move = clock - st.last, 0
  local ahead = math.abs(st.ahead or 0)
  if -step > refill then
    move = -step
  elseif ahead > 0 and step >= ahead then
    move = -ahead
  elseif st.ahead and st.ahead > 0 and step > refill then
    move = -step
  end
  if move ~= 0 then move = st.twin.shift(st.s, st.p, move) or move end
  if move ~= 0 then
    st.last, ahead = st.last - move, math.min(ahead + move, MAX_AHEAD)
    if move < 0 then ahead = -ahead end
    st.ahead = ahead * move > 0 and ahead or nil
  end
  st.now = math.max(clock, st.last)
  local due = st.due and (move ~= 0 or st.due <= st.now)
  if due then file('reservations').expire(st, reservations, move) end
  if move ~= 0 or due then keep(st, due) end
end

local function rule_at(i)
  local r = cache[i]
  if not r then
    local at = math.abs(i)
    local packed = ARGV[at + 1]
    local p = { unpack('<' .. string.rep('i8', #packed / 8), packed) }
    local c = #p
    r = { name = ARGV[at], p = p, twin = file(ARGV[at]), refill = p[c - 1], text = i < 0 and ARGV[at + 2] or nil }
    p[c], p[c - 1] = nil, nil
    cache[i] = r
  end
  return r
end

-- former returns the rule of a text that is stored with a state; nil if it is none.
local function former(text)
  local r = cache[text]
  if not r then
    local name, numbers = string.match(text, '^(%S+) ([%d,-]+)')
    local fine, twin = pcall(file, name or '')
    if not fine or not twin then return nil end
    local p = {}
    for n in string.gmatch(numbers, '[^,]+') do p[#p + 1] = tonumber(n) end
    r = { name = name, p = p, twin = twin, refill = p[#p], text = text }
    p[#p] = nil
    cache[text] = r
  end
  return r
end

-- migrate brings a named state under another rule. prepare keeps that. A request that only
-- reads restores the state as it was.
local function migrate(st, r)
  local was = { s = st.s, name = st.name, twin = st.twin, p = st.p, text = st.text, reset = st.reset }
  st.was = was
  was.migrated = st.migrated or false
  st.s = file('migrate').migrate(st, st.s, r, st.now)
  st.name, st.twin, st.p, st.text, st.migrated = r.name, r.twin, r.p, r.text, true
  if st.dirty then
    local _
    _, _, _, _, st.reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
  end
end

-- read returns the stored text of a state or an error, and whether it is the head of a log. A
-- named state may be stored as another algorithm stores it.
local function read(key, r)
  local log = r.twin.load
  local v
  if log then v = log(key) else v = attempt('GET', key) end
  if r.text and type(v) == 'table' and string.find(v.err, 'WRONGTYPE', 1, true) then
    if log then return attempt('GET', key), false end
    return file('sliding_log').load(key), true
  end
  return v, log
end

-- short reports whether a rule lacks the params that a migration to it needs.
local function short(r) return r.twin.migrate and #r.p < 10 end

-- open returns the state at KEYS[key] under the rule at ARGV[rule], at the instant of this
-- call; or nil and an error.
local function open(key, rule, reservations)
  local st, r = states[key], rule_at(rule)
  if st then
    if r.text ~= st.text then
      if short(r) then return nil, 5 end
      migrate(st, r)
    end
    st.p = r.p -- limits that share a state may differ in their params
    return st
  end
  local v, log = read(KEYS[key], r)
  local s, last = nil, 0
  if not v then
    s = {}
  elseif type(v) == 'table' then
    return nil, v.err
  else
    local fine
    fine, s = pcall(decode, v)
    if not fine or type(s) ~= 'table' then return nil, BAD_STATE end
    if log then s.key, s.head = KEYS[key], v end
  end
  local due, far, ahead
  local was = r
  if v then
    local c = #s
    local text = s[c]
    if type(text) == 'string' then
      if text ~= r.text then was = former(text) end
      if not was then return nil, BAD_STATE end
      s[c], c = nil, c - 1
    end
    last, s[c] = s[c], nil
    if type(last) == 'table' then
      if #last == 1 then
        ahead = last[1]
      else
        due, far, ahead = last[1], last[2], last[3]
      end
      last, s[c - 1] = s[c - 1], nil
    end
    if type(last) ~= 'number' then return nil, BAD_STATE end
  end
  -- All common fields at once: adding one later would resize the table.
  st = {
    key = key, name = was.name, p = was.p, twin = was.twin, text = was.text, s = s, now = clock, reset = 0,
    exists = v, last = last, ahead = ahead, dirty = false,
  }
  if due then
    if reservations == 0 then return nil, 3 end -- they expire together with the state
    st.due, st.far = due, far
    file('reservations').use(st, reservations)
  end
  if was ~= r and short(r) then return nil, 5 end
  if clock < last or due or ahead then guard(st, was.refill, reservations) end
  if st.twin.advance and st.twin.advance(s, st.p, st.now) then keep(st, true) end
  if was ~= r then migrate(st, r) end
  states[key] = st
  return st
end

-- prepare changes the state before the decision of a request. The change is kept even if
-- the request is denied.
local function prepare(key, rule, verb, n, more)
  local primes = rule_at(rule).twin.primes
  primes = primes and n > 0
  if verb == PEEK or verb >= COMMIT or n == 0 and verb < PEEK or not primes and more == 0 and rule > 0 then return end
  local x = more ~= 0 and rest(more) or nil
  if not primes and rule > 0 and not x[8] then return end
  local st = open(key, rule, x and x[1] or 0)
  if not st then return end -- answer returns the same error
  if x and x[8] then file('reservations').carry(st, x, open) end
  if st.migrated then
    local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
    st.dirty, st.reset = true, reset
  end
  if primes then
    local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
    if reset == 0 then
      st.s = {}
      st.twin.carried(st.s, st.p, st.now, st.p[1])
      st.dirty, st.reset = true, st.s[1] - st.now
    end
  end
end

-- decide_one decides one request.
local function decide_one(key, rule, verb, n, more)
  local x = more ~= 0 and rest(more) or nil
  local st, err = open(key, rule, x and x[1] or 0)
  if not st then return err, 0, 0, 0, 0, 0, clock end
  if verb >= RESET or x and x[8] then return file('reservations').answer(st, verb, n, x, open) end
  local ok, granted, balance, retry, reset, delay, kept, place =
    st.twin.decide(st.s, st.p, verb, st.now, n, x and x[2] or 0, x and x[4] or 0, 0)
  if kept or ok and n > 0 and verb ~= PEEK then st.dirty, st.reset = true, reset end
  local code = ok and (place and place > 0 and 5 + place or 1) or 0
  if st.due then retry, reset = file('reservations').await(st, st, code, verb == TAKE_UP_TO and 1 or n, retry, reset) end
  return code, granted, balance, retry, reset, delay, st.now
end

-- answer decides one request. One that only reads, or fails, keeps no migration.
local function answer(key, rule, verb, n, more)
  local reads = verb == PEEK or n == 0 and verb < PEEK
  if rule > 0 or not reads and verb < COMMIT then return decide_one(key, rule, verb, n, more) end
  local before = states[key]
  if before then before.was = nil end
  local code, granted, balance, retry, reset, delay, at = decide_one(key, rule, verb, n, more)
  local st = states[key]
  if st and st.was and (reads or code == 2) then
    for field, v in pairs(st.was) do st[field] = v end
    st.was = nil
  end
  return code, granted, balance, retry, reset, delay, at
end

-- text returns the stored form of a state.
local function text(s, last, due, far, rule, ahead)
  local c = #s
  if c == 2 and not due and not ahead then
    if rule then return format('[%d,%d,%d,"%s"]', s[1], s[2], last, rule) end
    return format('[%d,%d,%d]', s[1], s[2], last)
  end
  local out = {}
  for i = 1, c do out[i] = format('%d', s[i]) end
  out[c + 1] = format('%d', last)
  if due and ahead then
    out[c + 2] = format('[%d,%d,%d]', due, far, ahead)
  elseif due then
    out[c + 2] = format('[%d,%d]', due, far)
  elseif ahead then
    out[c + 2] = format('[%d]', ahead)
  end
  if rule then out[#out + 1] = '"' .. rule .. '"' end
  return '[' .. table.concat(out, ',') .. ']'
end

-- write stores a state until it equals that of an unused key, even if the clock first
-- advances by ahead. Until that is rounded up to a multiple of 1.024 s, plus 1 ms, so that a key
-- that is written often keeps its TTL: see takes.lua.
local function write(st)
  local now, live = st.now, st.reset
  if st.far then
    -- A return at the last deadline extends the use of a key with initial tokens.
    local until_far = st.far - now + (st.twin.primes and st.reset or 0)
    if until_far > live then live = until_far end
  end
  if st.ahead then live = live + math.abs(st.ahead) end
  local ttl = format('%d', math.floor((now + live) / 1024000) * 1024 + 1025 + slack - math.floor(clock / 1000))
  if st.h then file('reservations').write(st, ttl) end
  if live > 0 then
    local s = st.reset > 0 and st.s or {}
    local v = text(s, now, st.due, st.far, st.text, st.ahead)
    if st.twin.save then st.twin.save(KEYS[st.key], s, v, ttl) else call('SET', KEYS[st.key], v, 'PX', ttl) end
  elseif st.exists then
    call('DEL', KEYS[st.key])
  end
end

-- decide appends the replies to the requests from first to last, and writes.
local function decide(out, mode, first, last)
  local fits, decided, packed = true, true, ARGV[1]
  if mode > 0 then
    expired = {}
    for i = first * 40 - 15, last * 40 - 15, 40 do prepare(unpack('<i8i8i8i8i8', packed, i)) end
    before = {}
    for key, st in pairs(states) do
      if st.dirty then before[key] = file('reservations').copy(st) end
    end
  end
  for i = first, last do
    local key, rule, verb, n, more = unpack('<i8i8i8i8i8', packed, i * 40 - 15)
    if mode == 0 and (more ~= 0 or rule < 0) then prepare(key, rule, verb, n, more) end
    local code, granted, balance, retry, reset, delay, at = answer(key, rule, verb, n, more)
    if code ~= 1 and code ~= 4 and code ~= 6 and code ~= 7 then
      fits = false
      decided = decided and code == 0
    end
    if type(code) == 'string' then
      out[i] = '!' .. code
    else
      out[i] = struct.pack(ANSWER, code, granted, balance, retry, reset, delay, at)
    end
  end
  if mode == 2 or mode > 0 and not decided then
    states = expired
  elseif mode == 3 or mode == 1 and not fits then
    states = before
  end
  for _, st in pairs(states) do
    if st.dirty then write(st) end
  end
end

local function run(now, extra, mode)
  clock, slack = now, extra
  local out = {}
  if mode < 4 then
    decide(out, mode, 1, (#ARGV[1] - 24) / 40)
    return out
  end
  local first, sizes = 1, ARGV[#ARGV]
  for i = 1, #sizes, 8 do
    local last = first + unpack('<i8', sizes, i) - 1
    states = {}
    decide(out, 1, first, last)
    first = last + 1
  end
  return out
end

return { run = run, text = text }
