-- Returns the counts, after checking that this is the server on which the sale was opened.
--
-- Returns: {'ok', now, stock, free, waiting, outstanding, reserved, backlog, paused, paid, turns,
-- left}.

local s, why = here(load('paused', 'free', 'reserved', 'stock', 'paid', 'turns', 'left', 'server'))
if not s then return {'stale', why} end
if s.free < 0 or s.free + s.reserved ~= s.stock then
  shut('damaged')
  return {'stale', 'damaged'}
end
park(s, 2000)
return {'ok', s.clock, num(s.stock), num(s.free), num(redis.call('ZCARD', LINE) - 1),
  num(outstanding(s)), num(s.reserved),
  num(redis.call('XLEN', STREAM)), num(s.paused), num(s.paid), num(s.turns), num(s.left)}
