-- The store in Redis: one call of the script decides a list of requests. call.lua documents
-- requests and answers.
--
-- A call is repeated only if Redis reports that it ran nothing: it does not know the script,
-- or hold keys must be declared. After any other error a request may have been charged.

local batches = require "weir.batches"
local breaker = require "weir.breaker"
local call = require "weir.call"
local clock = require "weir.clock"
local redis = require "weir.redis"

local build, read_answer, now = call.build, call.answer, clock.now
local ceil, find, format, max = math.ceil, string.find, string.format, math.max
local type, unpack = type, unpack
local sha1 = ngx.sha1_bin

local M = {}

local function hex(text)
  return (text:gsub(".", function(c) return format("%02x", c:byte()) end))
end

local words = {} -- of the current call; they are sent before anything yields

-- send runs the script, given by its SHA-1 or its text, with keys and args.
local function send(conn, deadline, command, script, keys, args)
  local k, a = #keys, #args
  words[1], words[2] = script, k
  for i = 1, k do words[2 + i] = keys[i] end
  for i = 1, a do words[2 + k + i] = args[i] end
  return conn:ask(deadline, command, unpack(words, 1, 2 + k + a))
end

-- reuse keeps or closes a connection after an error reply.
local function reuse(conn, problem)
  if find(problem, "^READONLY") or find(problem, "^MASTERDOWN") or find(problem, "^LOADING") then
    conn:discard() -- another server may be the primary
  elseif find(problem, "^NOAUTH") then
    conn:close()
  else
    conn:keep()
  end
end

-- What an error says about Redis: it answered; nothing; the worker is overloaded. Any other
-- error (nil) counts as a failure of Redis.
local ANSWERED, UNKNOWN, OVERLOAD = "answered", "unknown", "overload"

-- LATE is how long after its deadline a call ends only if the worker was busy, in ms.
local LATE = 20

-- late returns what a timeout of a call says. sent is when it was sent, or nil. A call that waited
-- most of its time while Redis answered others is no failure of Redis.
local function late(s, deadline, sent)
  local begun = deadline - s.deadline
  if not sent and now() > deadline + LATE then return OVERLOAD end
  return s.answered >= begun and (not sent or sent - begun > s.deadline / 2) and OVERLOAD or nil
end

-- ask runs the script once, on one connection. It returns the reply, which has a type; or nil, an
-- error and what that says about Redis.
local function ask(s, keys, args, deadline, kind)
  local name, text = s.name, s.script -- adopt may replace them while this waits
  local conn, problem = s.redis:open(deadline)
  if not conn then
    if find(problem, "too many waiting", 1, true) then return nil, problem, OVERLOAD end
    return nil, problem, find(problem, "timeout", 1, true) and late(s, deadline) or nil
  end
  local sent = now()
  local reply, refused
  reply, problem, refused = send(conn, deadline, "evalsha", name, keys, args)
  if refused and find(problem, "^NOSCRIPT") then
    reply, problem, refused = send(conn, deadline, "eval", text, keys, args)
  end
  if reply == nil then
    if refused then reuse(conn, problem) else conn:discard() end
    local says = refused and ANSWERED or nil
    if find(problem, "timeout", 1, true) then says = says or late(s, deadline, sent) end
    return nil, conn.address.name .. ": " .. problem, says
  end
  if type(reply) ~= kind then
    conn:discard()
    return nil, conn.address.name .. ": a reply that is not the script's"
  end
  s.answered = now()
  conn:keep()
  return reply
end

-- take reads the reply to requests into answers, at places if given. It returns the places
-- of requests that need their hold keys declared, if any; or nil and the first error, if
-- the requests are decided all or none.
local function take(requests, reply, answers, places, all)
  local again
  for i = 1, #requests do
    local r = requests[i]
    local a, problem = read_answer(r, reply[i])
    if problem == true then
      r.rule.holds = true -- declare them from now on
      again = again or {}
      again[#again + 1] = places and places[i] or i
    elseif problem then
      if all or #requests == 1 and not places then return nil, problem end
      a = { ok = false, err = problem }
    end
    if a then
      answers[places and places[i] or i] = a
      if not a.ok then answers.ok = false end
    end
  end
  return again
end

-- decide asks Redis, and once more for the requests that need their hold keys.
local function decide(s, requests, all)
  local deadline = now() + s.deadline
  local op = (all or #requests == 1) and s.takes(requests, deadline)
  if op then
    if op.problem then return nil, "redis: " .. op.problem, op.says end
    return op.answers
  end
  local keys, args = build(requests, all, s.prefix)
  if not keys then return nil, args, UNKNOWN end
  local answers, asked, places = { ok = true }, requests, nil
  for attempt = 1, 2 do
    local reply, problem, says = ask(s, keys, args, deadline, "table")
    if not reply then return nil, "redis: " .. problem, says end
    if #reply ~= #asked then return nil, "redis: the script answered " .. #reply .. " requests of " .. #asked end
    local again
    again, problem = take(asked, reply, answers, places, all)
    if problem then return nil, "redis: " .. problem, ANSWERED end
    if not again then return answers end
    if attempt == 2 then return nil, "redis: the script requests hold keys that were declared" end
    answers.ok = true
    if all then
      keys, args = build(requests, all, s.prefix, true)
    else
      asked, places = {}, again
      for i = 1, #again do asked[i] = requests[again[i]] end
      for _, a in pairs(answers) do
        if type(a) == "table" and not a.ok then answers.ok = false end
      end
      keys, args = build(asked, all, s.prefix, true)
    end
    if not keys then return nil, args, UNKNOWN end
  end
end

-- new returns the store of settings, edge.Settings, with the script of plan; or nil and an
-- error. It connects on its first call. It has
--
--   run(requests, all)   returns answers, with ok if all are; or nil, an error, and whether
--                        the reason is too many calls in this worker. With all, all are
--                        charged or none. Otherwise a request that could not be decided
--                        has err in its answer
--   adopt(plan)          uses the script of this plan from now on
--   unavailable()        returns why the breaker is open, or nil
--   redis                its weir.redis
function M.new(settings, plan)
  local connections, err = redis.new(settings.redis)
  if not connections then return nil, err end
  local state = { redis = connections, answered = -1, deadline = max(1, ceil((settings.deadline or 50000) / 1000)) }
  state.takes = batches.new(state, function(b, deadline)
    local keys, args = b:pack()
    local reply, problem, says = ask(state, keys, args, deadline, "string")
    if reply then return b:read(reply) end
    return problem, says
  end, function(deadline, sent) return late(state, deadline, sent) end, OVERLOAD)

  local circuit = breaker.new(function(deadline)
    local conn, problem = connections:open(deadline)
    if not conn then return nil, problem end
    local reply, refused
    reply, problem, refused = conn:ask(deadline, "ping")
    if reply or refused then
      conn:keep()
      return true
    end
    conn:discard()
    return nil, problem
  end, state.deadline)

  local store = { redis = connections }

  function store.adopt(p)
    if state.script ~= p.script then state.script, state.name = p.script, hex(sha1(p.script)) end
    state.prefix = p.prefix
  end

  function store.unavailable() return circuit.open and circuit.why or nil end

  function store.run(requests, all)
    if #requests == 0 then return { ok = true } end
    local generation, why = circuit:enter()
    if not generation then return nil, why end
    local answers, problem, says = decide(state, requests, all)
    if answers or says == ANSWERED then
      circuit:succeeded(generation)
    elseif not says then
      circuit:fail(generation, problem)
    end
    return answers, problem, says == OVERLOAD
  end

  store.adopt(plan)
  return store
end

return M
