-- What operators set for single keys in weir serve: a freeze or a block denies all requests of a
-- key, and a raise has other limits. Every worker polls Redis for them. Those that it has stay
-- until their end if Redis is unavailable, or lost them: weir serve then writes them again.
-- Twin of package internal/adjusted, which documents the keys in Redis.

local cjson = require "cjson.safe"
local clock = require "weir.clock"
local plans = require "weir.plan"

local log = ngx.log
local decode_base64 = ngx.decode_base64
local now = clock.now
local pcall, tonumber, type = pcall, tonumber, type

local M = {}

local KEY, ENDS = "weir:1:adjustments{operations}", "weir:1:until{operations}"
local EVERY = 0.4 -- s
local TIMEOUT = 1000 -- ms
local PAGE = 500
local SHARED = "adjustments" -- in the dictionary weir, for new workers

-- Returns the version and its id and, unless both are known, the time in ms and a page of
-- adjustments.
local SCRIPT = [[
local version, id = redis.call('HGET', KEYS[1], 'version') or '', redis.call('HGET', KEYS[1], 'id') or ''
if version == '' or version == ARGV[1] and id == ARGV[2] then return { version, id } end
local time = redis.call('TIME')
local all = { version, id, string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) }
for _, key in ipairs(redis.call('ZRANGE', KEYS[2], ARGV[3], ARGV[4])) do
  all[#all + 1] = redis.call('HGET', KEYS[1], 'a:' .. key) or ''
end
return all
]]

-- The adjustments in force by key: { ends = ms of the clock, or nil; rules of a raise, or nil }.
local current = {}

-- of returns the adjustment of a key that has not ended, or nil.
function M.of(key)
  local a = current[key]
  if a and a.ends and a.ends <= now() then
    current[key] = nil
    return nil
  end
  return a
end

-- read returns the key and the adjustment in a JSON text, and the reason why nginx cannot apply
-- it, or nil. offset is the worker's clock minus that of Redis.
local function read(text, offset)
  local r = cjson.decode(text)
  local key = type(r) == "table" and type(r.state) == "string" and decode_base64(r.state)
  if not key then return nil, nil, "want JSON with a state" end
  local a = { ends = (tonumber(r["until"]) or 0) > 0 and r["until"] + offset or nil }
  if r.kind ~= "raise" then return key, a end
  local rules, problem = plans.rules(r.nginx)
  if not rules then return nil, nil, problem end
  a.rules = rules
  return key, a
end

-- use puts a list of JSON texts into force. It returns the reason why some are not, or nil.
local function use(texts, offset)
  local all, refused, why = {}, 0, nil
  for i = 1, #texts do
    if texts[i] ~= "" then
      local ok, key, a, problem = pcall(read, texts[i], offset)
      if not ok then key, problem = nil, key end
      if key then
        all[key] = a
      else
        refused, why = refused + 1, why or problem
      end
    end
  end
  current = all
  return refused > 0 and refused .. " adjustments of keys are not applied: " .. tostring(why) or nil
end

-- share lets new workers start with the adjustments.
local function share(texts, offset, origin)
  local dict = ngx.shared.weir
  local text = cjson.encode{ texts = #texts > 0 and texts or nil, offset = offset, origin = origin }
  if not text or #text > dict:capacity() / 4 or not dict:safe_set(SHARED, text) then dict:delete(SHARED) end
end

local function restore(origin)
  local before = cjson.decode(ngx.shared.weir:get(SHARED) or "")
  if type(before) == "table" and before.origin == origin and type(before.texts) == "table" then
    use(before.texts, before.offset)
  end
end

-- start follows the adjustments over the connections of a weir.redis, every given number of
-- seconds or every 0.4. origin identifies that Redis. It returns the state: known, whether all
-- were read, and problem, the reason why some are not applied, or nil.
function M.start(connections, origin, seconds)
  local s = { known = false, problem = nil }
  local seen, seen_id, busy, failed = "", "", false, nil
  restore(origin)

  local function ask(deadline, version, id, first)
    local conn, problem = connections:open(deadline)
    if not conn then return nil, problem end
    local reply, refusal
    reply, problem, refusal = conn:ask(deadline, "eval", SCRIPT, 2, KEY, ENDS, version, id, first, first + PAGE - 1)
    if reply == nil and not refusal then
      conn:discard()
    else
      conn:keep()
    end
    if reply == nil then return nil, conn.address.name .. ": " .. problem end
    if type(reply) ~= "table" or type(reply[1]) ~= "string" or type(reply[2]) ~= "string" then
      return nil, "the reply has no version"
    end
    return reply
  end

  -- look reads all pages, if there is another version. It returns an error or nil.
  local function look()
    local texts, first, offset, version, id = {}, 0, nil, nil, nil
    while true do
      local began = now()
      local reply, problem = ask(began + TIMEOUT, first == 0 and seen or "", first == 0 and seen_id or "", first)
      if not reply then return problem end
      if #reply < 3 then -- the known ones, or none
        s.known = true
        return nil
      end
      if first == 0 then
        version, id, offset = reply[1], reply[2], began - (tonumber(reply[3]) or 0)
      elseif reply[1] ~= version or reply[2] ~= id then
        return nil -- changed meanwhile: the next tick reads it
      end
      for i = 4, #reply do texts[#texts + 1] = reply[i] end
      if #reply < 3 + PAGE then break end
      first = first + PAGE
    end
    s.problem = use(texts, offset)
    share(texts, offset, origin)
    seen, seen_id, s.known = version, id, true
  end

  local function tick()
    if busy then return end
    busy = true
    local fine, problem = pcall(look)
    busy = false
    if problem and problem ~= failed then log(fine and ngx.NOTICE or ngx.ERR, "weir: adjustments of keys: ", problem) end
    failed = problem
  end

  local ok, err = clock.poll(seconds or EVERY, tick)
  if not ok then return nil, "weir: adjustments of keys: " .. err end
  return s
end

return M
