-- Conditions and costs: the part of CEL that expr.Portable writes to a plan, evaluated as
-- package expr does. An expression that cannot be evaluated returns nil and the reason.

local address = require "weir.address"
local text = require "weir.text"

local M = {}

local find, sub = string.find, string.sub
local trim = text.trim
local error, tostring, type = error, tostring, type

-- The maximum length of a request's values, in bytes.
local MAX_METHOD, MAX_HOST, MAX_PATH, MAX_VALUE = 256, 256, 4096, 8192

local function bounded(name, value, most)
  if #value > most then return nil, name .. " has " .. #value .. " bytes, more than the " .. most .. " that are read" end
  return value
end

-- single returns the value that all values of a name agree on, or "" if there is none.
local function single(kind, name, values)
  if not values or not values[1] then return "" end
  local value = trim(values[1])
  for i = 2, #values do
    if trim(values[i]) ~= value then return nil, kind .. " " .. name .. " has different values" end
  end
  return bounded(kind, value, MAX_VALUE)
end

local compile

-- reader compiles an operation that reads a value of the request by its name.
local function reader(kind)
  return function(e)
    local name = e[2]
    return function(a) return single(kind, name, a[kind](a, name)) end
  end
end

-- presence compiles an operation that reports whether a value exists.
local function presence(kind)
  return function(e)
    local name = e[2]
    return function(a)
      local values = a[kind](a, name)
      return values ~= nil and values[1] ~= nil
    end
  end
end

-- logical compiles && and ||: an operand that decides the result does so even if the
-- other cannot be evaluated.
local function logical(decides)
  return function(e)
    local x, y = compile(e[2]), compile(e[3])
    return function(a, path)
      local left, err = x(a, path)
      if left == decides then return decides end
      local right, problem = y(a, path)
      if right == decides then return decides end
      if left == nil then return nil, err end
      if right == nil then return nil, problem end
      return not decides
    end
  end
end

-- binary compiles an operation f of two operands.
local function binary(f)
  return function(e)
    local x, y = compile(e[2]), compile(e[3])
    return function(a, path)
      local left, err = x(a, path)
      if left == nil then return nil, err end
      local right
      right, err = y(a, path)
      if right == nil then return nil, err end
      return f(left, right)
    end
  end
end

local operations = {
  method = function() return function(a) return bounded("request.method", a:method(), MAX_METHOD) end end,
  host = function() return function(a) return bounded("request.host", a:host(), MAX_HOST) end end,
  path = function() return function(_, path) return bounded("request.path", path, MAX_PATH) end end,
  ip = function()
    return function(a)
      local b = a:ip()
      return b and address.text(b) or ""
    end
  end,
  header = reader("header"), query = reader("query"), cookie = reader("cookie"),
  hasHeader = presence("header"), hasQuery = presence("query"), hasCookie = presence("cookie"),
  ["&&"] = logical(false), ["||"] = logical(true),
  ["=="] = binary(function(x, y) return x == y end),
  ["!="] = binary(function(x, y) return x ~= y end),
  ["<"] = binary(function(x, y) return x < y end),
  ["<="] = binary(function(x, y) return x <= y end),
  [">"] = binary(function(x, y) return x > y end),
  [">="] = binary(function(x, y) return x >= y end),
  startsWith = binary(function(x, y) return sub(x, 1, #y) == y end),
  endsWith = binary(function(x, y) return y == "" or sub(x, -#y) == y end),
  contains = binary(function(x, y) return find(x, y, 1, true) ~= nil end),
}

operations["!"] = function(e)
  local x = compile(e[2])
  return function(a, path)
    local value, err = x(a, path)
    if value == nil then return nil, err end
    return not value
  end
end

function operations.size(e)
  local x = compile(e[2])
  return function(a, path)
    local value, err = x(a, path)
    if value == nil then return nil, err end
    return text.size(value)
  end
end

operations["?:"] = function(e)
  local condition, x, y = compile(e[2]), compile(e[3]), compile(e[4])
  return function(a, path)
    local value, err = condition(a, path)
    if value == nil then return nil, err end
    if value then return x(a, path) end
    return y(a, path)
  end
end

operations["in"] = function(e)
  local x, set = compile(e[2]), {}
  for i = 3, #e do set[e[i]] = true end
  return function(a, path)
    local value, err = x(a, path)
    if value == nil then return nil, err end
    return set[value] == true
  end
end

-- compile returns an expression of a plan as a function of a request's attributes and
-- one variant of its path.
function compile(e)
  if type(e) ~= "table" then return function() return e end end
  local operation = operations[e[1]]
  if not operation then error("expression: unknown operation " .. tostring(e[1]), 0) end
  return operation(e)
end

M.compile = compile

return M
