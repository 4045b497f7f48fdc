-- Response fields, and the answer to who is denied. Twin of httplimit/denial.go.

local fields = require "weir.fields"
local gate = require "weir.gate"
local random = require "weir.random"

local max, min = math.max, math.min
local concat = table.concat
local exit, print = ngx.exit, ngx.print

local M = {}

local PROBLEM = "application/problem+json"
local EXCEEDED = '{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",'
  .. '"title":"Request cannot be satisfied as assigned quota has been exceeded","status":'
local REDUCED = '{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",'
  .. '"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}\n'

-- UNDECIDED is when to come back after the store made no decision, in µs.
local UNDECIDED = 1000000

local function put(h, name, value) h[name] = value end

-- describe sets the fields about what was decided, in place of what others have set.
function M.describe(settings, pass)
  local forms, h = settings.forms, ngx.header
  if forms.off or pass.enforced == 0 and pass.outcome == "admitted" then return end
  local items, names = gate.items(pass), forms.names
  if not items[1] then
    for i = 1, #names do h[names[i]] = nil end
  else
    fields.set(forms, items, put, h)
  end
  if pass.outcome == "open" or pass.outcome == "closed" then h["Weir-Degraded"] = pass.outcome end
end

-- retry_seconds is a Retry-After: whole seconds, rounded up after the jitter, and at least
-- one.
local function retry_seconds(settings, us)
  local jitter = settings.jitter or 0
  if jitter > 0 then us = us + random.below(min(jitter, 3600 * 1000000) + 1) end
  return max(1, fields.seconds(us))
end

-- answer ends the request. Later phases but header_filter and log do not run. retry is in
-- µs, or nil or below 0 for never.
local function answer(settings, status, content_type, body, retry)
  local h = ngx.header
  ngx.status = status
  h["Content-Type"] = content_type
  h["Content-Length"] = #body
  h["X-Content-Type-Options"] = "nosniff"
  if not h["Cache-Control"] then h["Cache-Control"] = "no-store" end
  if retry and retry >= 0 then h["Retry-After"] = retry_seconds(settings, retry) end
  if body == "" then
    ngx.send_headers()
  else
    print(body)
  end
  return exit(200) -- the status was sent
end

-- problem is the body of a denial: see RFC 9457 and the RateLimit draft.
local function problem(status, items)
  local names = {}
  for i = 1, #items do
    if not items[i].ok then names[#names + 1] = items[i].label end
  end
  return EXCEEDED .. status .. ',"violated-policies":[' .. concat(names, ",") .. "]}\n"
end

M.problem = problem

-- deny answers a request that was denied, as the policy says that holds it back longest. A
-- redirect has no Retry-After, which would be the time until the client may follow it.
local function deny(settings, pass)
  local by = gate.denier(pass)
  local items, c, h = gate.items(pass), by.policy.on_denied, ngx.header
  if c.headers then
    for name, value in pairs(c.headers) do h[name] = value end
  end
  if c.redirect and c.redirect ~= "" then
    h["Location"] = c.redirect
    return answer(settings, c.status, nil, "")
  end
  local retry = fields.counting(items).retry
  if c.problem then return answer(settings, c.status, PROBLEM, problem(c.status, items), retry) end
  return answer(settings, c.status, c.content_type, c.body or "", retry)
end

-- send answers a request that does not pass, and ends it.
function M.send(settings, pass)
  M.describe(settings, pass)
  if pass.outcome == "denied" then return deny(settings, pass) end
  return answer(settings, 503, PROBLEM, REDUCED, UNDECIDED)
end

return M
