-- Twin of internal/algo/emission.go: exact arithmetic on the time that tokens take.
--
-- One token takes T = tu µs and tr units of 1/k µs, 0 <= tr < k. Instants and
-- spans are pairs (µs, units) with 0 <= units < k. Lua's numbers are doubles,
-- exact up to 2^53: every product here stays below that or is split. The floor of a
-- quotient of whole numbers below 2^53 is exact: the distance of a fraction from the next
-- whole number is larger than the rounding error.

local floor = math.floor

-- add and sub are arithmetic on pairs.
local function add(k, us, rem, us2, rem2)
  us, rem = us + us2, rem + rem2
  if rem >= k then return us + 1, rem - k end
  return us, rem
end

local function sub(k, us, rem, us2, rem2)
  us, rem = us - us2, rem - rem2
  if rem < 0 then return us - 1, rem + k end
  return us, rem
end

-- product returns n·T for any n below 2^50 whose n·tu is below 2^53. It multiplies units
-- beyond 2^53 ten bits of n at a time.
local function product(k, tu, tr, n)
  if n * tr <= MAX_INSTANT then
    local c = floor(n * tr / k)
    return n * tu + c, n * tr - c * k
  end
  local whole, us, rem, place = n * tu, 0, 0, 1099511627776
  while place >= 1 do
    local d = floor(n / place)
    n = n - d * place
    local r = rem * 1024 + d * tr
    local c = floor(r / k)
    us, rem = us * 1024 + c, r - c * k
    place = place / 1024
  end
  return whole + us, rem
end

-- cost returns the exact time of n tokens, at most that of most tokens.
local function cost(k, tu, tr, most, n)
  return product(k, tu, tr, n > most and most or n)
end

-- divide returns the largest n <= MAX_COUNT with n·T <= (us, rem), and whether n·T equals
-- (us, rem) or n saturated. It requires us >= 0. The estimate is off by
-- at most one, since it is below 2^41 and doubles carry 53 bits.
local function divide(k, tu, tr, us, rem)
  local n = floor((us + rem / k) / (tu + tr / k))
  if n > MAX_COUNT then return MAX_COUNT, true end
  local pu, pr = product(k, tu, tr, n)
  while pu > us or pu == us and pr > rem do
    n = n - 1
    pu, pr = sub(k, pu, pr, tu, tr)
  end
  while true do
    local nu, nr = add(k, pu, pr, tu, tr)
    if nu > us or nu == us and nr > rem then break end
    n, pu, pr = n + 1, nu, nr
  end
  if n > MAX_COUNT then return MAX_COUNT, true end
  return n, pu == us and pr == rem
end

-- tokens returns the number of whole tokens in a gap, which may be negative: rounded down
-- and between -MAX_COUNT and MAX_COUNT.
local function tokens(k, tu, tr, us, rem)
  local n, exact
  if k == 1 then
    n = floor(us / tu)
  elseif us >= 0 then
    n = divide(k, tu, tr, us, rem)
  else
    us, rem = sub(k, 0, 0, us, rem)
    n, exact = divide(k, tu, tr, us, rem)
    if not exact then n = n + 1 end
    n = -n
  end
  if n > MAX_COUNT then return MAX_COUNT end
  if n < -MAX_COUNT then return -MAX_COUNT end
  return n
end

-- scale returns the whole part and the rest of a·b/c, for b <= c. It multiplies products
-- beyond 2^53 one bit of a at a time.
local function scale(a, b, c)
  local n = a * b
  if n <= MAX_INSTANT then
    local whole = floor(n / c)
    return whole, n - whole * c
  end
  local whole, rest, bit = 0, 0, 4503599627370496
  while bit >= 1 do
    whole, rest = whole * 2, rest * 2
    if rest >= c then whole, rest = whole + 1, rest - c end
    if a >= bit then
      a, rest = a - bit, rest + b
      if rest >= c then whole, rest = whole + 1, rest - c end
    end
    bit = bit / 2
  end
  return whole, rest
end

-- ceil rounds a pair up to whole µs.
local function ceil(us, rem)
  if rem > 0 then return us + 1 end
  return us
end

return { add = add, sub = sub, cost = cost, product = product, scale = scale, divide = divide, tokens = tokens, ceil = ceil }
