-- Paths: what servers may take one for. They differ about escaped slashes, backslashes,
-- dot segments and path parameters, and a way around a policy is a path that the policy
-- reads in one way and the server behind it in another: so it is read in all.

local lower = require("weir.lower").lower

local M = {}

local byte, char, find, format, gsub, match, sub = string.byte, string.char, string.find, string.format, string.gsub, string.match, string.sub
local concat = table.concat

-- decoded is the byte of every escape, by its two digits.
local decoded = {}
for i = 0, 255 do
  local hex = format("%02x", i)
  for _, a in ipairs { hex:sub(1, 1), hex:sub(1, 1):upper() } do
    for _, b in ipairs { hex:sub(2), hex:sub(2):upper() } do decoded[a .. b] = char(i) end
  end
end
M.decoded = decoded

-- unescape decodes each escape once. What is no escape stays as it is.
local function unescape(s)
  if not find(s, "%", 1, true) then return s end
  return (gsub(s, "%%(%x%x)", decoded))
end

-- Kinds of bytes in a target.
local PLAIN, SLASH, ODD, FOREIGN, QUERY = 0, 1, 2, 3, 4

-- kinds tells what each byte may mean: nothing but itself; a slash; something else as
-- well, which wants all readings; what net/url escapes; the end of the path.
local kinds = {}
for i = 0, 255 do
  local c = char(i)
  if find(c, "[A-Z%%;]") then kinds[i] = ODD
  elseif find(c, "[a-z0-9%-_.~$&+,:=@!'()*%[%]]") then kinds[i] = PLAIN
  else kinds[i] = FOREIGN end
end
kinds[byte("/")], kinds[byte("?")] = SLASH, QUERY

-- escaped is a path as url.URL.EscapedPath has it: as it was sent, unless that has a
-- byte which wants an escape; then every byte that it does not take for safe has one,
-- whether it had one before or not.
local function escaped(path)
  if not find(path, "[^%w%-_.~$&+,/:;=@!'()*%[%]%%]") then return path end
  return (gsub(unescape(path), "[^%w%-_.~$&+,/:;=@]", function(c) return format("%%%02X", byte(c)) end))
end
M.escaped = escaped

-- normalize is one reading. With split, what decodes to a slash or a backslash separates
-- segments, and a path parameter ends before a dot segment is looked for; without, it is
-- part of its segment. With resolve, dot segments are followed.
local function normalize(path, split, resolve)
  if split then path = gsub(unescape(path), "\\", "/") end
  local out, n = {}, 0
  local from = 1
  while true do
    local to = find(path, "/", from, true)
    local segment = sub(path, from, (to or 0) - 1)
    if split then
      segment = match(segment, "^[^;]*")
    else
      segment = gsub(unescape(segment), "/", "\0") -- no pattern has one
    end
    if resolve and segment == ".." then
      if n > 0 then
        out[n] = nil
        n = n - 1
      end
    else
      if not split then segment = match(segment, "^[^;]*") end
      if segment ~= "" and not (resolve and segment == ".") then
        n = n + 1
        out[n] = segment
      end
    end
    if not to then break end
    from = to + 1
  end
  if n == 0 then return "" end
  return lower("/" .. concat(out, "/"))
end

local function add(list, s)
  for i = 1, #list do
    if list[i] == s then return end
  end
  list[#list + 1] = s
end

-- all is every reading of an unusual path.
local function all(path)
  path = match(path, "^[^?#]*")
  local list = { normalize(path, true, true) }
  add(list, normalize(path, true, false))
  add(list, normalize(path, false, true))
  add(list, normalize(path, false, false))
  return list
end

-- plain says whether the first n bytes of a target are a path with one reading, which is
-- itself but for the root.
local function plain(target, n)
  if byte(target) ~= 47 or n > 1 and byte(target, n) == 47 then return false end
  local slash = false
  for i = 1, n do
    local c = byte(target, i)
    local kind = kinds[c]
    if kind > SLASH or slash and (c == 47 or c == 46) then return false end
    slash = kind == SLASH
  end
  return true
end

-- readings is what servers may take a path for, as spelling.Readings has it: at most
-- four, in lower case, without empty segments and without a slash at the end ("" is the
-- root). The path is that of EscapedPath.
function M.readings(path)
  if plain(path, #path) then return { path == "/" and "" or path } end
  return all(path)
end

-- of_target is the readings of the target of a request, as it was sent.
function M.of_target(target)
  local n = find(target, "?", 1, true)
  n = n and n - 1 or #target
  if plain(target, n) then
    if n == 1 then return { "" } end
    return { n == #target and target or sub(target, 1, n) }
  end
  return all(escaped(sub(target, 1, n)))
end

-- ready makes the pattern of a plan fit for matches.
function M.ready(pattern)
  local segments = pattern.segments or {}
  pattern.segments = segments
  for i = 1, #segments do
    if segments[i] == "" then return end
  end
  pattern.whole = #segments == 0 and "" or "/" .. concat(segments, "/")
  pattern.below = pattern.whole .. "/"
end

-- matches says whether a pattern matches a reading.
function M.matches(pattern, path)
  local whole = pattern.whole
  if whole then
    return path == whole or pattern.rest and sub(path, 1, #whole + 1) == pattern.below or false
  end
  local segments, from = pattern.segments, 1
  for i = 1, #segments do
    if from > #path then return false end
    local to = find(path, "/", from + 1, true) or #path + 1
    local want = segments[i]
    if want ~= "" and want ~= sub(path, from + 1, to - 1) then return false end
    from = to
  end
  return pattern.rest or from > #path
end

return M
