-- Claims of JSON Web Tokens that something in front has verified.

local json = require "weir.json"

local M = {}

local byte, find, gsub, match, rep, sub = string.byte, string.find, string.gsub, string.match, string.rep, string.sub
local max, tonumber = math.max, tonumber
local decode_base64 = ngx.decode_base64

-- longest is the longest token that is read, in bytes.
local longest = 16384

-- number is the one spelling of a JSON number: as a decimal, or with an exponent if that
-- would be much longer.
local function number(text)
  local sign, whole, fraction, exponent = match(text, "^(%-?)(%d+)%.?(%d*)[eE]?(.*)$")
  if exponent == "" then
    exponent = 0
  else
    local minus, digits = match(exponent, "^([+-]?)0*(%d*)$")
    if #digits > 10 then return "" end
    exponent = digits == "" and 0 or tonumber(digits)
    if exponent > 2 ^ 30 then return "" end
    if minus == "-" then exponent = -exponent end
  end
  exponent = exponent - #fraction
  local digits = match(whole .. fraction, "^0*(%d*)$")
  local last = #digits
  while byte(digits, last) == 48 do last = last - 1 end
  exponent = exponent + #digits - last
  digits = sub(digits, 1, last)
  if digits == "" then return "0" end
  if exponent >= 0 and #digits + exponent <= 21 then
    digits = digits .. rep("0", exponent)
  elseif exponent < 0 and exponent >= -21 then
    digits = rep("0", max(0, 1 - exponent - #digits)) .. digits
    local point = #digits + exponent
    digits = sub(digits, 1, point) .. "." .. sub(digits, point + 1)
  else
    digits = digits .. "e" .. string.format("%d", exponent)
  end
  return sign .. digits
end
M.number = number

-- scalar is the text of a JSON text, number or boolean, or "" for all else.
local function scalar(raw)
  if not raw then return "" end
  local c = byte(raw)
  if c == 34 then
    local s = json.unquote(raw)
    if find(s, "\239\191\189", 1, true) then return "" end -- half of a surrogate pair is no text
    return s
  end
  if c == 116 or c == 102 then return raw end
  if c == 45 or c >= 48 and c <= 57 then return number(raw) end
  return ""
end

-- payload is the JSON in a token: what stands between its two dots, or all of a payload
-- alone. Padding, which the standard has not, is what some proxies add.
local function payload(token, bearer)
  if #token > longest or find(token, "[^%w%-_.=]") then return nil end
  local dot = find(token, ".", 1, true)
  if dot then
    local head, body, signature = match(token, "^([^.]+)%.([^.]*)%.([^.]+)$")
    if not head then return nil end
    token = body
  elseif bearer then
    return nil
  end
  if sub(token, -1) == "=" then token = sub(token, 1, -2) end
  if sub(token, -1) == "=" then token = sub(token, 1, -2) end
  if find(token, "=", 1, true) or #token % 4 == 1 then return nil end
  token = gsub(gsub(token, "%-", "+"), "_", "/")
  return decode_base64(token .. rep("=", -#token % 4))
end

-- read is the text of a claim in a header's value, or "" if there is none or anything
-- about the token is wrong.
function M.read(part, value)
  if part.bearer then
    local scheme, token = match(value, "^([^ \t]*)[ \t](.*)$")
    if not scheme or scheme:lower() ~= "bearer" then return "" end
    value = match(gsub(token, "\t", " "), "^ *(.*)$")
  end
  local text = payload(value, part.bearer)
  local object = text and json.object(text)
  if not object then return "" end
  local raw = json.member(object, part.name)
  if raw then return scalar(raw) end
  local path = part.path
  for i = 1, #path - 1 do
    object = json.member(object, path[i])
    if not object or byte(object) ~= 123 then return "" end
  end
  return scalar(json.member(object, path[#path]))
end

-- ready makes the part of a plan fit for read.
function M.ready(part)
  local path = {}
  for name in (part.name .. "."):gmatch("([^.]*)%.") do path[#path + 1] = name end
  part.path = path
end

return M
