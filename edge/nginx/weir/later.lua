-- What is asked of the store after the response: a bounded queue of the worker, and one
-- timer at a time that empties it, many requests in one call. At the end of a worker
-- it is emptied too.

local timer, log, ERR, now = ngx.timer.at, ngx.log, ngx.ERR, ngx.now
local pcall, type = pcall, type

local M = {}

local MOST = 4096 -- entries
local TOGETHER = 128 -- requests of a call, as of a round trip in Go
local LOST = 1 -- s after which a timer is one that nginx dropped: see lua_max_running_timers
local ROUNDS = 256 -- calls of a timer, whose memory is its own until it ends

local function tell(done, answers, err)
  if not done then return end
  local fine, problem = pcall(done, answers, err)
  if not fine then log(ERR, "weir: ", problem) end
end

-- M.new makes a queue for a store. It has
--
--   run(requests, done)  asks for requests, all or none if requests.all and each for
--                        itself otherwise, in the order of the calls of run; then
--                        done(answers), or done(nil, problem), if done is there. What
--                        finds no place is told so at once
--   wake()               sees to it that they are asked; a timer of run may be lost
--   waiting()            how many entries wait
--   dropped, failed      how many found no place, and got no answer, so far
function M.new(store)
  local l = { dropped = 0, failed = 0 }
  local asked, told = {}, {} -- by number
  local first, last, running, lost = 1, 0, false, 0 -- lost: when a timer should have begun

  local function take()
    local requests, done = asked[first], told[first]
    asked[first], told[first] = nil, nil
    first = first + 1
    return requests, done
  end

  local function ask(requests, all)
    local fine, answers, err = pcall(store.run, requests, all)
    if fine then return answers, err end
    log(ERR, "weir: ", answers)
    return nil, answers
  end

  -- several asks for entries that belong to nobody else, in one call.
  local function several(entries, dones, n)
    if n == 1 then
      local answers, err = ask(entries[1], false)
      if not answers then l.failed = l.failed + 1 end
      return tell(dones[1], answers, err)
    end
    local together, at = {}, 0
    for i = 1, n do
      local requests = entries[i]
      for k = 1, #requests do
        at = at + 1
        together[at] = requests[k]
      end
    end
    local answers, err = ask(together, false)
    at = 0
    for i = 1, n do
      local part, problem, count = nil, err, #entries[i]
      if answers then
        part = { ok = true }
        for k = 1, count do
          local a = answers[at + k]
          part[k] = a
          if a.err and count == 1 then part, problem = nil, a.err end
          if not a.ok and part then part.ok = false end
        end
      end
      at = at + count
      if not part then l.failed = l.failed + 1 end
      tell(dones[i], part, problem)
    end
  end

  local function round()
    if asked[first].all then
      local requests, done = take()
      local answers, err = ask(requests, true)
      if not answers then l.failed = l.failed + 1 end
      return tell(done, answers, err)
    end
    local entries, dones, n, count = {}, {}, 0, 0
    while first <= last and not asked[first].all do
      count = count + #asked[first]
      if count > TOGETHER and n > 0 then break end
      n = n + 1
      entries[n], dones[n] = take()
    end
    return several(entries, dones, n)
  end

  local drain
  local function start()
    local started, err = timer(0, drain)
    if started then lost = now() + LOST else log(ERR, "weir: no timer for what is asked later: ", err) end
  end

  function drain()
    if running then return end
    running, lost = true, 0
    local rounds = 0
    while first <= last and rounds < ROUNDS do
      round()
      rounds = rounds + 1
    end
    running = false
    if first <= last then start() end
  end

  function l.waiting() return last - first + 1 end

  function l.wake()
    if first <= last and not running and now() >= lost then start() end
  end

  function l.run(requests, done)
    if type(requests[1]) ~= "table" then return tell(done, { ok = true }) end
    local problem
    for i = 1, #requests do problem = problem or store.problem(requests[i]) end
    if not problem and last - first + 1 >= MOST then problem = "weir: too much to ask later: " .. MOST .. " wait" end
    if problem then
      l.dropped = l.dropped + 1
      return tell(done, nil, problem)
    end
    last = last + 1
    asked[last], told[last] = requests, done or false
    l.wake()
  end

  return l
end

return M
