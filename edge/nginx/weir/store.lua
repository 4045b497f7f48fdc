-- Asks Redis: one call of the script for a list of requests. README.md says what a
-- request and an answer are.
--
-- Nothing is asked twice, but where Redis said that it ran nothing: that it does not
-- know the script, or that hold keys have to be declared. After any other error a
-- request may have been charged.

local breaker = require "weir.breaker"
local call = require "weir.call"
local clock = require "weir.clock"
local redis = require "weir.redis"

local build, read_answer, problem_of, now = call.build, call.answer, call.problem, clock.now
local ceil, find, format, max = math.ceil, string.find, string.format, math.max
local type, unpack = type, unpack
local ngx_now, sha1 = ngx.now, ngx.sha1_bin

local M = {}

local WORDS = 7900 -- of a call: LuaJIT gives a function 8000 at most

local function hex(text)
  return (text:gsub(".", function(c) return format("%02x", c:byte()) end))
end

local words = {} -- of the call in the making; they are sent before anything yields

-- send has the script, by its name or its text, run with keys and args.
local function send(conn, deadline, command, script, keys, args)
  local k, a = #keys, #args
  words[1], words[2] = script, k
  for i = 1, k do words[2 + i] = keys[i] end
  for i = 1, a do words[2 + k + i] = args[i] end
  return conn:ask(deadline, command, unpack(words, 1, 2 + k + a))
end

-- ended is what becomes of a connection after an error that Redis answered with.
local function ended(conn, problem)
  if find(problem, "^READONLY") or find(problem, "^MASTERDOWN") or find(problem, "^LOADING") then
    conn:distrust() -- it may be that another server is the primary
  elseif find(problem, "^NOAUTH") then
    conn:close()
  else
    conn:keep()
  end
end

-- What the problem of a question says about Redis: that it is there, since it said so
-- itself; nothing; nothing, since more ask in this worker than it has connections and time
-- for; or, if nil, that it is gone.
local THERE, NOTHING, CROWD = true, false, "crowd"

-- LATE is how long after its deadline a question is over only if the worker was busy, in ms.
local LATE = 20

-- ask has keys and args decided, on one connection. It gives the reply, a list; or nil,
-- a problem and what that says about Redis.
local function ask(s, keys, args, deadline)
  local many = 2 + #keys + #args
  if many > WORDS then return nil, "a call of " .. many .. " words: want at most " .. WORDS, NOTHING end
  local name, text = s.name, s.script -- those of another plan may take their place meanwhile
  local conn, problem = s.redis:open(deadline)
  if not conn then
    if find(problem, "too many waiting", 1, true) then return nil, problem, CROWD end
    local late = s.answered >= deadline - s.deadline or now() > deadline + LATE
    return nil, problem, late and find(problem, "timeout", 1, true) and CROWD or nil
  end
  local reply, refused
  reply, problem, refused = send(conn, deadline, "evalsha", name, keys, args)
  if refused and find(problem, "^NOSCRIPT") then
    reply, problem, refused = send(conn, deadline, "eval", text, keys, args)
  end
  if reply == nil then
    if refused then ended(conn, problem) else conn:distrust() end
    return nil, conn.address.name .. ": " .. problem, refused
  end
  if type(reply) ~= "table" then
    conn:distrust()
    return nil, conn.address.name .. ": a reply that is not the script's"
  end
  s.answered = now()
  conn:keep()
  return reply
end

-- take reads the reply to requests into answers, those at places if given. It gives the
-- places of what Redis has not decided for lack of hold keys, if any; or nil and the
-- problem of the first answer that has one, if all belong together.
local function take(requests, reply, answers, places, all)
  local again
  for i = 1, #requests do
    local r = requests[i]
    local a, problem = read_answer(r, reply[i])
    if problem == true then
      r.rule.holds = true -- from now on they are declared
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

-- decide asks Redis for requests, and again for those that need their hold keys.
local function decide(s, requests, all)
  local mode = all and 1 or 0
  local keys, args = build(requests, mode, s.prefix, ngx_now() * 1e6)
  if not keys then return nil, args, NOTHING end
  local deadline = now() + s.deadline
  local answers, asked, places = { ok = true }, requests, nil
  for attempt = 1, 2 do
    local reply, problem, says = ask(s, keys, args, deadline)
    if not reply then return nil, "redis: " .. problem, says end
    if #reply ~= #asked then return nil, "redis: the script answered " .. #reply .. " requests of " .. #asked end
    local again
    again, problem = take(asked, reply, answers, places, all)
    if problem then return nil, "redis: " .. problem, THERE end
    if not again then return answers end
    if attempt == 2 then return nil, "redis: the script asks for hold keys that were declared" end
    answers.ok = true
    if all then
      keys, args = build(requests, mode, s.prefix, ngx_now() * 1e6, true)
    else
      asked, places = {}, again
      for i = 1, #again do asked[i] = requests[again[i]] end
      for _, a in pairs(answers) do
        if type(a) == "table" and not a.ok then answers.ok = false end
      end
      keys, args = build(asked, mode, s.prefix, ngx_now() * 1e6, true)
    end
    if not keys then return nil, args, NOTHING end
  end
end

-- M.new is the store of settings, edge.Settings, that asks with the script of plan; or
-- nil and a problem. It connects when it is asked. It has
--
--   run(requests, all)   answers, with ok of all together; or nil, a problem, and whether
--                        it is none of Redis: too many ask at once in this worker. With
--                        all, all are charged or none; else each is for itself, and of
--                        several, one that could not be decided has err
--   problem(request)     what keeps a request from being asked, or nil
--   adopt(plan)          asks with the script of this plan from now on
--   away()               why Redis is left alone for now, or nil
--   redis                its weir.redis
function M.new(settings, plan)
  local connections, err = redis.new(settings.redis)
  if not connections then return nil, err end
  local state = { redis = connections, answered = -1, deadline = max(1, ceil((settings.deadline or 50000) / 1000)) }

  local gate = breaker.new(function(deadline)
    local conn, problem = connections:open(deadline)
    if not conn then return nil, problem end
    local reply, refused
    reply, problem, refused = conn:ask(deadline, "ping")
    if reply or refused then
      conn:keep()
      return true
    end
    conn:distrust()
    return nil, problem
  end, state.deadline)

  local store = { redis = connections, problem = problem_of }

  function store.adopt(p)
    if state.script ~= p.script then state.script, state.name = p.script, hex(sha1(p.script)) end
    state.prefix = p.prefix
  end

  function store.away() return gate.away and gate.why or nil end

  function store.run(requests, all)
    if #requests == 0 then return { ok = true } end
    local era, why = gate:enter()
    if not era then return nil, why end
    local answers, problem, says = decide(state, requests, all)
    if answers or says == THERE then
      gate:succeeded(era)
    elseif says ~= NOTHING and says ~= CROWD then
      gate:fail(era, problem)
    end
    return answers, problem, says == CROWD
  end

  store.adopt(plan)
  return store
end

return M
