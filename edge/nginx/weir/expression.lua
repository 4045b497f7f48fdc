-- Expressions: CEL, as a plan has it, evaluated as package expr does. What cannot be
-- evaluated gives nil and a text that says why.
--
-- A value is a string, a boolean, or a whole number as integer.lua has them.

local address = require "weir.address"
local integer = require "weir.integer"
local text = require "weir.text"

local M = {}

local byte, find, sub = string.byte, string.find, string.sub
local trim, size = text.trim, text.size
local type = type

-- The longest values of a request that are read, in bytes.
local longest = { method = 256, host = 256, path = 4096, value = 8192 }

local ops = {}

-- eval is the value of an expression for a request with one reading of its path.
local function eval(e, a, path) return e.run(e, a, path) end
M.eval = eval

local function bounded(name, value, most)
  if #value > most then return nil, name .. " has " .. #value .. " bytes, more than the " .. most .. " that are read" end
  return value
end

function ops.const(e) return e.value end

function ops.method(_, a) return bounded("request.method", a:method(), longest.method) end

function ops.host(_, a) return bounded("request.host", a:host(), longest.host) end

function ops.path(_, _, path) return bounded("request.path", path, longest.path) end

function ops.ip(_, a)
  local b = a:ip()
  return b and address.text(b) or ""
end

-- one is the value that values agree on, "" if there is none.
local function one(values, e)
  if not values or not values[1] then return "" end
  local value = trim(values[1])
  for i = 2, #values do
    if trim(values[i]) ~= value then return nil, e.op .. " " .. e.name .. " has different values" end
  end
  return bounded(e.op, value, longest.value)
end

function ops.header(e, a) return one(a:header(e.name), e) end
function ops.query(e, a) return one(a:query(e.name), e) end
function ops.cookie(e, a) return one(a:cookie(e.name), e) end

local function any(values) return values ~= nil and values[1] ~= nil end

function ops.hasHeader(e, a) return any(a:header(e.name)) end
function ops.hasQuery(e, a) return any(a:query(e.name)) end
function ops.hasCookie(e, a) return any(a:cookie(e.name)) end

ops["in"] = function(e, a, path)
  local value, err = eval(e.args[1], a, path)
  if value == nil then return nil, err end
  local list = e.args[2]
  if list.op == "const" then
    for i = 1, #list.value do
      if list.value[i] == value then return true end
    end
    return false
  end
  local found = false
  for i = 1, #list.args do
    local element
    element, err = eval(list.args[i], a, path)
    if element == nil then return nil, err end
    if element == value then found = true end
  end
  return found
end

-- either makes && and ||: the value that decides alone does, whatever the other is.
local function either(decides)
  return function(e, a, path)
    local err
    for i = 1, #e.args do
      local value, problem = eval(e.args[i], a, path)
      if value == decides then return decides end
      if value == nil then err = err or problem end
    end
    if err then return nil, err end
    return not decides
  end
end

ops["&&"], ops["||"] = either(false), either(true)

ops["!"] = function(e, a, path)
  local value, err = eval(e.args[1], a, path)
  if value == nil then return nil, err end
  return not value
end

ops["?:"] = function(e, a, path)
  local value, err = eval(e.args[1], a, path)
  if value == nil then return nil, err end
  return eval(e.args[value and 2 or 3], a, path)
end

-- unary and binary make the operation of one value, and of two, of f.
local function unary(f)
  return function(e, a, path)
    local x, err = eval(e.args[1], a, path)
    if x == nil then return nil, err end
    return f(x)
  end
end

local function binary(f)
  return function(e, a, path)
    local x, err = eval(e.args[1], a, path)
    if x == nil then return nil, err end
    local y
    y, err = eval(e.args[2], a, path)
    if y == nil then return nil, err end
    return f(x, y)
  end
end

-- less says whether x comes before y: texts by their bytes, whatever the locale.
local function less(x, y)
  if type(x) ~= "string" then return x < y end
  for i = 1, #x do
    local c, d = byte(x, i), byte(y, i)
    if c ~= d then return d ~= nil and c < d end
  end
  return #x < #y
end

local function equal(x, y) return x == y end

ops["=="] = binary(equal)
ops["!="] = binary(function(x, y) return not equal(x, y) end)
ops["<"] = binary(less)
ops["<="] = binary(function(x, y) return not less(y, x) end)
ops[">"] = binary(function(x, y) return less(y, x) end)
ops[">="] = binary(function(x, y) return not less(x, y) end)

ops["+"] = binary(function(x, y)
  if type(x) == "string" then return x .. y end
  return integer.add(x, y)
end)
ops["-"] = binary(integer.subtract)
ops["*"] = binary(integer.multiply)
ops["/"] = binary(integer.divide)
ops["%"] = binary(integer.modulo)
ops.neg = unary(integer.negate)

ops.startsWith = binary(function(x, y) return sub(x, 1, #y) == y end)
ops.endsWith = binary(function(x, y) return y == "" or sub(x, -#y) == y end)
ops.contains = binary(function(x, y) return find(x, y, 1, true) ~= nil end)
ops.size = unary(size)
ops.int = unary(integer.parse)
ops.lowerAscii = unary(text.ascii_lower)
ops.upperAscii = unary(text.ascii_upper)

function ops.cidr(e, a, path)
  local value, err = eval(e.args[1], a, path)
  if value == nil then return nil, err end
  local b, zone = address.parse(value)
  if not b or zone or address.mapped(b) then return nil, "no address" end
  return address.contains(e.network, b)
end

-- How many arguments an operation has, of those that have any.
local arity = { ["!"] = 1, neg = 1, size = 1, int = 1, lowerAscii = 1, upperAscii = 1, cidr = 1, ["?:"] = 3, ["in"] = 2,
  ["=="] = 2, ["!="] = 2, ["<"] = 2, ["<="] = 2, [">"] = 2, [">="] = 2, ["+"] = 2, ["-"] = 2, ["*"] = 2, ["/"] = 2, ["%"] = 2,
  startsWith = 2, endsWith = 2, contains = 2 }

local named = { header = true, query = true, cookie = true, hasHeader = true, hasQuery = true, hasCookie = true }

-- deepest is how deep operations may stand in one another.
local deepest = 200

-- ready checks an expression of a plan and makes it fit for eval. It returns what was
-- expected instead, or nil.
local function ready(e, depth)
  if type(e) ~= "table" or type(e.op) ~= "string" then return "want an expression" end
  if depth > deepest then return "want an expression of less depth" end
  local run, args = ops[e.op], e.args or {}
  if not run and e.op ~= "list" then return "want an operation that this version knows, got " .. e.op end
  if type(args) ~= "table" then return "want a list of arguments of " .. e.op end
  if arity[e.op] and #args ~= arity[e.op] then return "want " .. arity[e.op] .. " arguments of " .. e.op end
  if (e.op == "&&" or e.op == "||") and #args < 2 then return "want arguments of " .. e.op end
  if named[e.op] then
    e.name = e.name or "" -- which is left out of a plan
    if type(e.name) ~= "string" then return "want a name of " .. e.op end
  end
  if e.op == "const" then
    local kind = type(e.value)
    if kind == "table" then
      if depth == 0 then return "want no list alone" end
    elseif kind ~= "string" and kind ~= "boolean" and (kind ~= "number" or e.value % 1 ~= 0) then
      return "want a constant"
    end
  elseif e.op == "cidr" then
    e.network = type(e.value) == "string" and address.network(e.value)
    if not e.network then return "want a network of cidr" end
  end
  e.run, e.args = run, args
  for i = 1, #args do
    local want = ready(args[i], depth + 1)
    if want then return want end
    local list = args[i].op == "list" or type(args[i].value) == "table"
    if list ~= (e.op == "in" and i == 2) then return "want a list behind in, and nowhere else" end
  end
  return nil
end

function M.ready(e) return ready(e, 0) end

return M
