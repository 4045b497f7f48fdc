-- Keys: the bucket of a policy and then, for each part, "|LENGTH:VALUE", or "|-" for no
-- value. A key of more than 128 bytes is replaced by the bucket, "|#" and the SHA-256 of
-- the parts.

local ffi = require "ffi"
local address = require "weir.address"
local lower = require("weir.lowercase").lower
local match = require "weir.match"
local sha256 = require("weir.crypto").sha256
local trim = require("weir.text").trim

local M = {}

local concat = table.concat
local encode_base64 = ngx.encode_base64
local bucket = address.bucket

local MAX_KEY = 128 -- bytes

-- single returns the one value that all values agree on, else "". Of two different values
-- the upstream may use either, so a client could choose one for the key and the other for
-- itself.
local function single(values)
  if not values or not values[1] then return "" end
  local value = trim(values[1])
  for i = 2, #values do
    if trim(values[i]) ~= value then return "" end
  end
  return value
end

-- credentials returns the canonical form of an Authorization header: its scheme has no
-- case and ends at any white space.
local function credentials(value)
  local scheme, rest = value:match("^([^ \t]*)[ \t]+(.*)$")
  if not scheme then return value end
  return lower(scheme) .. " " .. rest
end

-- How to find the value of each source, "" if there is none.
local sources = {
  ["client.ip"] = function(part, a)
    local ip = a:ip()
    return ip and bucket(ip, part.bits) or ""
  end,
  header = function(part, a)
    local value = single(a:header(part.name))
    if part.scheme then return credentials(value) end
    return value
  end,
  query = function(part, a) return single(a:query(part.name)) end,
  cookie = function(part, a) return single(a:cookie(part.name)) end,
  path = function(_, _, s) return s.pattern end,
  method = function(part, a)
    local method = a:method():upper()
    return part.set[method] and method or "*"
  end,
  host = function(_, a) return a:host() end,
  const = function(part) return part.name end,
}

local pieces = {}

-- parts returns the parts of the key of a request that matches p, of any length. It
-- stores the value of each part in values.
function M.parts(p, a, s, values)
  local list = p.key
  local count = #list
  for i = 1, count do
    local part = list[i]
    local value = part.find(part, a, s)
    values[i] = value
    pieces[i] = value == "" and "|-" or "|" .. #value .. ":" .. value
  end
  if count == 1 then return pieces[1] end
  return concat(pieces, "", 1, count)
end

-- of returns the key of a bucket and such parts.
function M.of(name, parts)
  if #name + #parts <= MAX_KEY then return name .. parts end
  local text = encode_base64(ffi.string(sha256(parts), 32), true)
  return name .. "|#" .. text:gsub("[+/]", { ["+"] = "-", ["/"] = "_" })
end

-- prepare makes a part of a plan ready for parts.
function M.prepare(part)
  part.find = assert(sources[part.source], "key: unknown source")
  if part.source == "method" then
    part.set = match.set(part.methods)
  elseif part.source == "header" then
    part.scheme = part.name == "authorization" or part.name == "proxy-authorization"
  end
end

return M
