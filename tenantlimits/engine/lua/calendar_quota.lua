-- calendar_quota: exact per calendar period. A period that has begun runs to its own end.
-- Fields a$i used milli-units, b$i end of the period us. Policy: amount d, end d, next end d, mode d.
-- read
if now >= b$i then
  a$i, b$i = 0, now < ends$i and ends$i or next_end$i
elseif not (b$i <= next_end$i + 864e8) then
  -- No period that has begun ends so late: the clock stepped back, and what was used counts in that of now.
  b$i, moved$j = now < ends$i and ends$i or next_end$i, true
end
-- fits
a$i + $cost <= amount$i or $cost == 0
-- record
if on$i then a$i = a$i + $cost end
-- settle
if witness$i == b$i then
  a$i = math.max(0, math.min(a$i + delta, math.max(a$i, 2 * amount$i)))
end
