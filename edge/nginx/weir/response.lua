-- Response fields, and the response to a denied request. Twin of httplimit/denial.go.

local crypto = require "weir.crypto"
local enforce = require "weir.enforce"
local fields = require "weir.fields"

local max, min = math.max, math.min
local concat = table.concat
local exit, print = ngx.exit, ngx.print

local M = {}

local PROBLEM = "application/problem+json"
local EXCEEDED = '{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",'
  .. '"title":"Request cannot be satisfied as assigned quota has been exceeded","status":'
local REDUCED = '{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",'
  .. '"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}\n'

-- UNDECIDED is the Retry-After when the store made no decision, in µs.
local UNDECIDED = 1000000

-- describe sets the fields about the decision, in place of those of the upstream.
function M.describe(settings, adm)
  local forms, h = settings.forms, ngx.header
  if forms.off or adm.enforced == 0 and adm.outcome == "admitted" then return end
  local items = enforce.items(adm)
  if items[1] then
    fields.set(forms, items, h)
  else
    for _, name in ipairs(forms.names) do h[name] = nil end
  end
  if adm.outcome == "open" or adm.outcome == "closed" then h["Weir-Degraded"] = adm.outcome end
end

-- retry_seconds returns a Retry-After: whole seconds with jitter, rounded up, at least 1.
local function retry_seconds(settings, us)
  local jitter = settings.jitter or 0
  if jitter > 0 then us = us + crypto.below(min(jitter, 3600 * 1000000) + 1) end
  return max(1, fields.seconds(us))
end

-- respond ends the request. Of the later phases only header_filter and log run. retry is
-- in µs, or nil or below 0 for never.
local function respond(settings, status, content_type, body, retry)
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

-- problem returns the body of a denial: see RFC 9457 and the RateLimit draft.
local function problem(status, names)
  return EXCEEDED .. status .. ',"violated-policies":[' .. concat(names, ",") .. "]}\n"
end

-- deny responds as the policy that denies longest says. A redirect has no Retry-After,
-- which would be the time until the client may follow it.
local function deny(settings, adm)
  local items, c, h = enforce.items(adm), enforce.denier(adm).policy.on_denied, ngx.header
  for name, value in pairs(c.headers or {}) do h[name] = value end
  if c.redirect then
    h["Location"] = c.redirect
    return respond(settings, c.status, nil, "")
  end
  local retry = items[1] and fields.tightest(items).retry -- nil: the key is blocked
  if c.problem then return respond(settings, c.status, PROBLEM, problem(c.status, enforce.violated(adm)), retry) end
  return respond(settings, c.status, c.content_type, c.body or "", retry)
end

-- send responds to a request that does not pass, and ends it.
function M.send(settings, adm)
  M.describe(settings, adm)
  if adm.outcome == "denied" then return deny(settings, adm) end
  return respond(settings, 503, PROBLEM, REDUCED, UNDECIDED)
end

return M
