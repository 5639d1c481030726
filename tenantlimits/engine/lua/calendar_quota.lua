-- calendar_quota: exact per calendar period. A period that has begun runs to its own end.
-- Fields a$i used milli-units, b$i end of the period us. Policy: amount d, end d, next end d, mode d.
-- read
local amount, ends, next_end, mode = unpack('<dddd', policy, $at)
if now >= b$i then
  a$i, b$i = 0, now < ends and ends or next_end
end
-- ask
fits$i = $cost == 0 or a$i + $cost <= amount
-- record
if on$i and fits$i then a$i = a$i + $cost end
-- settle
if witness$i == b$i then
  a$i = math.max(0, math.min(a$i + delta, math.max(a$i, 2 * amount)))
end
