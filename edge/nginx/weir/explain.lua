-- Says what the policies make of a request that somebody describes, for finding out why
-- one is limited. Nothing is asked.

local cjson = require "cjson.safe"
local questions = require "weir.questions"
local request = require "weir.request"

local M = {}

local MOST = 64 -- arguments

-- one is the first value of an argument, or nil.
local function one(value)
  if type(value) == "table" then value = value[1] end
  return type(value) == "string" and value or nil
end

-- described is the attributes of the request that arguments describe, or nil and what is
-- wrong with them.
local function described(args)
  local headers = {}
  local given = args.header
  if type(given) ~= "table" then given = { given } end
  for _, text in ipairs(given) do
    local name, value = tostring(text):match("^([%w!#$%%&'*+%-.^_`|~]+):[ \t]*(.-)[ \t]*$")
    if not name then return nil, "header: want Name: value" end
    name = name:lower()
    headers[name] = headers[name] or {}
    table.insert(headers[name], value)
  end
  local path, query = (one(args.path) or "/"):match("^([^?]*)%??([^#]*)")
  if path:sub(1, 1) ~= "/" then return nil, "path: want one that begins with a slash" end
  return request.of({
    method = one(args.method) or "GET", host = one(args.host) or ngx.var.http_host or "", path = path,
    headers = headers, query = request.query_values(query), cookies = request.cookie_values(headers.cookie or {}),
    ip = one(args.ip) or ngx.var.remote_addr,
  })
end

-- answer says what a plan makes of the request that the arguments of this one describe.
function M.answer(plan)
  ngx.header["Content-Type"] = "application/json"
  ngx.header["Cache-Control"] = "no-store"
  local a, problem = described(ngx.req.get_uri_args(MOST))
  if not a then
    ngx.status = 400
    return ngx.print(cjson.encode({ error = problem }), "\n")
  end
  local found, out = {}, {}
  questions.ask(plan, a, found)
  for i, f in ipairs(found) do
    local said = { policy = f.policy.name, matched = f.matched and true or false }
    if not f.matched then
      said.why = f.why
    elseif f.ask then
      said.key, said.cost, said.shadow, said.fault = f.ask.key, f.ask.cost, f.ask.shadow and true or false, f.ask.fault
      said.limits = {}
      for j, r in ipairs(f.ask.requests) do said.limits[j] = r.rule.limit end
    end
    out[i] = cjson.encode(said)
  end
  ngx.print('{"version":', string.format("%d", plan.version or 0), ',"policies":[', table.concat(out, ","), "]}\n")
end

return M
