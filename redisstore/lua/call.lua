-- The general road of a call: any number of requests, of any kind.

local call, format, attempt, decode, unpack = redis.call, string.format, redis.pcall, cjson.decode, struct.unpack

local BAD_STATE = 'BADSTATE the key does not hold a state of weir'
local clock, slack
local states = {}

-- made is what is made once for all requests of a call: the functions of a file by its
-- name, and a rule or the rest of a request by its place in ARGV.
local made = {}

local function file(name)
  local f = made[name]
  if not f then
    f = use(name)
    made[name] = f
  end
  return f
end

local function rest(more)
  local x = made[more]
  if not x then
    x = file('holds').rest(more)
    made[more] = x
  end
  return x
end

-- before is how the states are that changed before the decisions of a batch, and
-- noticed how those are of which holds were found due, whatever becomes of the batch.
local before, noticed

-- guard keeps time from going back for a state that was written at last: a step
-- back that is no longer than the horizon stands still, a longer one takes the
-- state along, for good: else every call would take it along again, and it would
-- never refill. It then settles what is due, for good: else every call that is denied
-- would go through all of it again.
local function guard(st, horizon, holds)
  local back = math.max(0, st.last - clock)
  if back > 0 then
    if back <= horizon then
      st.now, back = st.last, 0
    else
      st.twin.shift(st.s, st.p, back)
      st.last = clock
    end
  end
  local due = st.due and (back > 0 or st.due <= st.now)
  if due then file('holds').settle(st, holds, back) end
  if back > 0 or due then
    local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
    st.dirty, st.reset = true, reset
    if noticed then
      local c = file('holds').copy(st)
      if due then noticed[st.key] = c end
      if before then before[st.key] = c end
    end
  end
end

local function rule_at(i)
  local r = made[i]
  if not r then
    local packed = ARGV[i + 1]
    local p = { unpack('<' .. string.rep('i8', #packed / 8), packed) }
    local c = #p
    r = { p = p, twin = file(ARGV[i]), horizon = p[c - 1] }
    p[c], p[c - 1] = nil, nil
    made[i] = r
  end
  return r
end

-- open gives the state at KEYS[key] under the rule at ARGV[rule], at the instant
-- of this call; or nil and a problem.
local function open(key, rule, holds)
  local st, r = states[key], rule_at(rule)
  if st then
    st.p = r.p -- limits that have the state in common differ in their params
    return st
  end
  local load = r.twin.load
  local v, s, last = nil, nil, 0
  if load then v = load(KEYS[key]) else v = attempt('GET', KEYS[key]) end
  if not v then
    s = {}
  elseif type(v) == 'table' then
    return nil, v.err
  else
    local fine
    fine, s = pcall(decode, v)
    if not fine or type(s) ~= 'table' then return nil, BAD_STATE end
    if load then s.key, s.head = KEYS[key], v end
  end
  local due, far
  if v then
    local c = #s
    last, s[c] = s[c], nil
    if type(last) == 'table' then
      due, far, last, s[c - 1] = last[1], last[2], s[c - 1], nil
    end
    if type(last) ~= 'number' then return nil, BAD_STATE end
  end
  -- All fields that nearly every state has: one more would cost a new table.
  st = { key = key, p = r.p, twin = r.twin, s = s, now = clock, reset = 0, exists = v, last = last, dirty = false }
  if due then
    if holds == 0 then return nil, 3 end -- they have to live as long as the state
    st.due, st.far = due, far
    file('holds').use_holds(st, holds)
  end
  if clock < last or due then guard(st, r.horizon, holds) end
  states[key] = st
  return st
end

-- precede does what comes before the decision of a request and stays even if
-- that is a denial.
local function precede(key, rule, verb, n, more)
  local sights = rule_at(rule).twin.sights
  if verb == PEEK or verb >= COMMIT or not sights and more == 0 then return end
  local x = more ~= 0 and rest(more) or nil
  if not sights and not x[8] then return end
  local st = open(key, rule, x and x[1] or 0)
  if not st then return end -- answer meets the same problem
  if x and x[8] and (n > 0 or verb > PEEK) then file('holds').carry(st, x, open) end
  if sights then
    local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
    if reset == 0 then
      _, _, _, _, reset = st.twin.decide(st.s, st.p, TAKE, st.now, 0, 0, 0, 0)
      st.dirty, st.reset = true, reset
    end
  end
end

-- answer decides one request.
local function answer(key, rule, verb, n, more)
  local x = more ~= 0 and rest(more) or nil
  local st, problem = open(key, rule, x and x[1] or 0)
  if not st then return problem, 0, 0, 0, 0, 0, clock end
  if verb >= RESET or x and x[8] then return file('holds').answer(st, verb, n, x, open) end
  local ok, granted, balance, retry, reset, delay, keep =
    st.twin.decide(st.s, st.p, verb, st.now, n, x and x[2] or 0, 0, 0)
  if keep or ok and n > 0 and verb ~= PEEK then st.dirty, st.reset = true, reset end
  return ok and 1 or 0, granted, balance, retry, reset, delay, st.now
end

-- text is a state as it is stored.
local function text(s, last, due, far)
  local c = #s
  if c == 2 and not due then return format('[%d,%d,%d]', s[1], s[2], last) end
  local out = {}
  for i = 1, c do out[i] = format('%d', s[i]) end
  out[c + 1] = format('%d', last)
  if due then out[c + 2] = format('[%d,%d]', due, far) end
  return '[' .. table.concat(out, ',') .. ']'
end

-- write stores what became of a state, for as long as it means something: to the
-- millisecond above, and one more.
local function write(st)
  local now, live = st.now, st.reset
  if st.far and st.far - now > live then live = st.far - now end
  local ttl = format('%d', (live + 999) / 1000 + 1 + slack)
  if st.h then file('holds').write(st, ttl) end
  if live > 0 then
    local s = st.reset > 0 and st.s or {}
    local v = text(s, now, st.due, st.far)
    if st.twin.save then st.twin.save(KEYS[st.key], s, v, ttl) else call('SET', KEYS[st.key], v, 'PX', ttl) end
  elseif st.exists then
    call('DEL', KEYS[st.key])
  end
end

local function run(now, prolonged, mode)
  clock, slack = now, prolonged
  local out, fits, decided, asked = {}, true, true, ARGV[1]
  if mode > 0 then
    noticed = {}
    for i = 25, #asked, 40 do precede(unpack('<i8i8i8i8i8', asked, i)) end
    before = {}
    for key, st in pairs(states) do
      if st.dirty then before[key] = file('holds').copy(st) end
    end
  end
  for i = 1, (#asked - 24) / 40 do
    local key, rule, verb, n, more = unpack('<i8i8i8i8i8', asked, i * 40 - 15)
    if mode == 0 and more ~= 0 then precede(key, rule, verb, n, more) end
    local code, granted, balance, retry, reset, delay, at = answer(key, rule, verb, n, more)
    if code ~= 1 and code ~= 4 then
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
    states = noticed
  elseif mode == 3 or mode == 1 and not fits then
    states = before
  end
  for _, st in pairs(states) do
    if st.dirty then write(st) end
  end
  return out
end

return { run = run, text = text }
