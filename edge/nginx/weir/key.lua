-- Keys: the bucket of a policy and then, for each part, "|LENGTH:VALUE", or "|-" for no
-- value. A key that would be longer than 128 bytes is the bucket, "|#" and the SHA-256 of
-- what follows it.

local ffi = require "ffi"
local address = require "weir.address"
local claim = require "weir.claim"
local expression = require "weir.expression"
local lower = require("weir.lower").lower
local match = require "weir.match"
local trim = require("weir.text").trim

pcall(ffi.cdef, [[
unsigned char *SHA256(const unsigned char *d, size_t n, unsigned char *md);
]]) -- another module may have said so already

-- crypto is where SHA256 is: in nginx itself, or in the libcrypto beside it.
local function crypto()
  for _, name in ipairs { false, "crypto", "libcrypto.so.3", "libcrypto.so.1.1" } do
    local ok, lib = pcall(function()
      local lib = name and ffi.load(name) or ffi.C
      return lib.SHA256 and lib
    end)
    if ok and lib then return lib end
  end
  error("weir: want libcrypto, of OpenSSL", 0)
end

local SHA256 = crypto().SHA256

local M = {}

local concat = table.concat
local encode_base64 = ngx.encode_base64
local bucket = address.bucket

-- longest is the longest key, in bytes.
local longest = 128

-- single is the one value that values agree on. Two different values are none: whoever
-- reads the request next may take either, so a client could choose one for the key and
-- the other for itself.
local function single(values)
  if not values or not values[1] then return "" end
  local value = trim(values[1])
  for i = 2, #values do
    if trim(values[i]) ~= value then return "" end
  end
  return value
end
M.single = single

-- credentials is the one spelling of a value of Authorization, whose scheme has no case
-- and ends at any space.
local function credentials(value)
  local scheme, rest = value:match("^([^ \t]*)[ \t]+(.*)$")
  if not scheme then return value end
  return lower(scheme) .. " " .. rest
end

-- How each source finds its value, "" if there is none.
local sources = {}

sources["client.ip"] = function(part, a)
  local ip = a:ip()
  return ip and bucket(ip, part.bits) or ""
end

function sources.header(part, a)
  local value = single(a:header(part.name))
  if part.scheme then return credentials(value) end
  return value
end

function sources.query(part, a) return single(a:query(part.name)) end

function sources.cookie(part, a) return single(a:cookie(part.name)) end

function sources.path(_, _, s) return s.pattern end

function sources.method(part, a)
  local method = a:method():upper()
  return part.set[method] and method or "*"
end

function sources.host(_, a) return a:host() end

function sources.claim(part, a) return claim.read(part, single(a:header(part.header))) end

function sources.cel(part, a, s, p)
  local value, err = expression.eval(part.of, a, match.reading(a, s.reading))
  if value == nil then
    match.fault(s, p, part.field, err)
    return ""
  end
  return trim(value)
end

function sources.const(part) return part.name end

local pieces = {}

-- parts is what follows the bucket in the key of a request that match found p to be
-- about, however long it is. The values of the parts are in values from 1 on.
function M.parts(p, a, s, values)
  local list = p.key
  local count = #list
  for i = 1, count do
    local part = list[i]
    local value = part.find(part, a, s, p)
    values[i] = value
    pieces[i] = value == "" and "|-" or "|" .. #value .. ":" .. value
  end
  if count == 1 then return pieces[1] end
  return concat(pieces, "", 1, count)
end

local digest = ffi.new("unsigned char[32]")

-- of is the key of a bucket and such parts.
function M.of(name, parts)
  if #name + #parts <= longest then return name .. parts end
  SHA256(parts, #parts, digest)
  local text = encode_base64(ffi.string(digest, 32), true)
  return name .. "|#" .. text:gsub("[+/]", { ["+"] = "-", ["/"] = "_" })
end

-- ready makes a part of a plan fit for parts. It returns what was expected instead, or
-- nil.
function M.ready(part, i)
  local find = sources[part.source]
  if not find then return "want a source that this version knows" end
  local name = part.name
  part.find, part.field = find, "key[" .. i - 1 .. "]"
  if part.source == "client.ip" then
    if type(part.bits) ~= "number" or part.bits < 1 or part.bits > 128 then return "want bits from 1 to 128" end
  elseif part.source == "method" then
    if type(part.methods) ~= "table" then return "want methods" end
    part.set = match.set(part.methods)
  elseif part.source == "cel" then
    return expression.ready(part.of)
  elseif part.source ~= "path" and part.source ~= "host" then
    if type(name) ~= "string" or name == "" then return "want a name" end
    if part.source == "header" then part.scheme = name == "authorization" or name == "proxy-authorization" end
    if part.source == "claim" then
      if type(part.header) ~= "string" then return "want a header" end
      claim.ready(part)
    end
  end
  return nil
end

return M
