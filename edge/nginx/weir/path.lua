-- Path variants. Servers differ in how they read escaped slashes, backslashes, dot segments
-- and path parameters. A path that a policy reads in one way and the upstream in another
-- would bypass the policy, so policies match every variant.

local lower = require("weir.lowercase").lower
local new_tab = require "table.new"

local M = {}

local byte, char, find, format, gsub, match, sub = string.byte, string.char, string.find, string.format, string.gsub, string.match, string.sub
local concat = table.concat

-- decoded maps the two digits of every escape to its byte.
local decoded = {}
for i = 0, 255 do
  local hex = format("%02x", i)
  for _, a in ipairs { hex:sub(1, 1), hex:sub(1, 1):upper() } do
    for _, b in ipairs { hex:sub(2), hex:sub(2):upper() } do decoded[a .. b] = char(i) end
  end
end
M.decoded = decoded

-- unescape decodes each escape once and keeps everything else.
local function unescape(s)
  if not find(s, "%", 1, true) then return s end
  return (gsub(s, "%%(%x%x)", decoded))
end

-- Kinds of bytes in a target.
local PLAIN, SLASH, ODD, FOREIGN, QUERY = 0, 1, 2, 3, 4

-- kinds maps each byte to its kind: PLAIN stands only for itself, ODD may mean something
-- else (so all variants are needed), FOREIGN is escaped by net/url, QUERY ends the path.
local kinds = {}
for i = 0, 255 do
  local c = char(i)
  if find(c, "[A-Z%%;]") then kinds[i] = ODD
  elseif find(c, "[a-z0-9%-_.~$&+,:=@!'()*%[%]]") then kinds[i] = PLAIN
  else kinds[i] = FOREIGN end
end
kinds[byte("/")], kinds[byte("?")] = SLASH, QUERY

-- escaped returns a path as url.URL.EscapedPath does: as sent, or, if a byte needs an
-- escape, with every unsafe byte escaped.
local function escaped(path)
  if not find(path, "[^%w%-_.~$&+,/:;=@!'()*%[%]%%]") then return path end
  return (gsub(unescape(path), "[^%w%-_.~$&+,/:;=@]", function(c) return format("%%%02X", byte(c)) end))
end

-- separate decodes a path. Escaped slashes separate segments if escapes is true, and
-- backslashes if backslashes is true.
local function separate(path, escapes, backslashes)
  if not escapes then path = gsub(path, "%%2[Ff]", "%%00") end -- no pattern contains a NUL
  path = unescape(path)
  if backslashes then path = gsub(path, "\\", "/") end
  return path
end

-- split stores the segments of a decoded path in segments, and the same without path
-- parameters in bare. It returns how many there are.
local function split(text, segments, bare)
  local n, from = 0, byte(text) == 47 and 2 or 1
  while true do
    local to = find(text, "/", from, true)
    local segment = sub(text, from, to and to - 1)
    n = n + 1
    segments[n], bare[n] = segment, segment
    local at = find(segment, ";", 1, true)
    if at then bare[n] = sub(segment, 1, at - 1) end
    if not to then return n end
    from = to + 1
  end
end

-- normalize returns one variant. With dots, dot segments are resolved: after path
-- parameters were removed if parameters is true, and after empty segments were removed if
-- merges is true.
local function normalize(segments, bare, count, dots, parameters, merges)
  local out, n, gaps = new_tab(count, 0), 0, false
  local seen = parameters and bare or segments
  for i = 1, count do
    local segment = seen[i]
    if dots and segment == ".." then
      if n > 0 then n = n - 1 end
    elseif not (dots and segment == "." or merges and segment == "") then
      n = n + 1
      segment = bare[i]
      out[n] = segment
      if segment == "" then gaps = true end
    end
  end
  if gaps then -- a segment that is empty, or only a parameter, is not part of the variant
    local most = n
    n = 0
    for i = 1, most do
      if out[i] ~= "" then
        n = n + 1
        out[n] = out[i]
      end
    end
  end
  if n == 0 then return "" end
  return lower("/" .. concat(out, "/", 1, n))
end

local function add(list, s)
  for i = 1, #list do
    if list[i] == s then return end
  end
  list[#list + 1] = s
end

-- add_text adds the variants of a decoded path.
local function add_text(list, text)
  local segments, bare = {}, {}
  local n = split(text, segments, bare)
  if byte(text) == 46 or find(text, "/.", 1, true) then
    local semicolon = find(text, ";", 1, true)
    local empty = semicolon or find(text, "//", 1, true)
    add(list, normalize(segments, bare, n, true, true, true))
    if empty then add(list, normalize(segments, bare, n, true, true, false)) end
    if semicolon then
      add(list, normalize(segments, bare, n, true, false, true))
      add(list, normalize(segments, bare, n, true, false, false))
    end
  end
  add(list, normalize(segments, bare, n, false, true, true))
end

-- add_all adds the variants of a path for every combination of the options of separate
-- and normalize.
local function add_all(list, path)
  local first, second = separate(path, true, true), separate(path, true, false)
  local third, fourth = separate(path, false, true), separate(path, false, false)
  add_text(list, first)
  if second ~= first then add_text(list, second) end
  if third ~= first then add_text(list, third) end
  if fourth ~= second and fourth ~= third then add_text(list, fourth) end
end

-- all returns every variant of an unusual path. A request target has no fragment, but
-- nginx ends the path at a "#".
local function all(path)
  path = match(path, "^[^?]*")
  local list = {}
  add_all(list, path)
  local i, j = find(path, "#", 1, true), find(path, "%23", 1, true)
  if j and (not i or j < i) then i = j end
  if i then add_all(list, sub(path, 1, i - 1)) end
  return list
end

-- plain reports whether the first n bytes of a target are a path with one variant, which
-- is the path itself ("" for the root).
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

-- variants returns the variants of an escaped path, as the Go policies do: usually one, in
-- lower case, without empty segments and trailing slash ("" is the root).
function M.variants(path)
  if plain(path, #path) then return { path == "/" and "" or path } end
  return all(path)
end

-- of_target returns the variants of a request target, as it was sent.
function M.of_target(target)
  local n = find(target, "?", 1, true)
  n = n and n - 1 or #target
  if plain(target, n) then
    if n == 1 then return { "" } end
    return { n == #target and target or sub(target, 1, n) }
  end
  return all(escaped(sub(target, 1, n)))
end

-- prepare makes a pattern of a plan ready for matches.
function M.prepare(pattern)
  local segments = pattern.segments
  for i = 1, #segments do
    if segments[i] == "" then return end
  end
  pattern.whole = #segments == 0 and "" or "/" .. concat(segments, "/")
  pattern.below = pattern.whole .. "/"
end

-- matches reports whether a pattern matches a variant.
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
