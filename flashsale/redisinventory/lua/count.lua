-- Returns the counts, after checking that this is the server on which the sale was opened.
--
-- Returns: {'ok', now, stock, free, waiting, outstanding, reserved, backlog, paused, paid}.

local s, why = here(load('paused', 'free', 'reserved', 'stock', 'paid', 'server'))
if not s then return {'stale', why} end
if s.free < 0 or s.free + s.reserved ~= s.stock then
  shut('damaged')
  return {'stale', 'damaged'}
end
return {'ok', s.clock, num(s.stock), num(s.free), num(redis.call('ZCARD', LINE) - 1),
  num(redis.call('ZCOUNT', OUT, '(' .. num(s.now), '(+inf')), num(s.reserved),
  num(redis.call('XLEN', STREAM)), num(s.paused), num(s.paid)}
