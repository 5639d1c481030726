-- concurrency: operations in flight. A lease is a member with a deadline, never a counter.
-- Field n$i, tail$i: lease c8, deadline us d for each, in the order of the deadlines. Policy: amount d, mode d.
-- read
if n$i > 0 and unpack('<d', tail$i, 16 * n$i - 7) > now + lease_us then
  -- The clock stepped back: no lease lives longer than a lease, or a lost holder would keep its slot as long as the step.
  local anew = {}
  for at = 1, 16 * n$i, 16 do
    anew[#anew + 1] = sub(tail$i, at, at + 7) .. pack('<d', math.min(now + lease_us, (unpack('<d', tail$i, at + 8))))
  end
  tail$i, moved$j = table.concat(anew), true
end
local first = 1
while first < 16 * n$i and not (unpack('<d', tail$i, first + 8) > now) do first = first + 16 end
if first > 1 then
  tail$i = sub(tail$i, first)
  n$i = #tail$i / 16
end
if n$i > in_flight then in_flight = n$i end
-- fits
n$i < amount$i
-- record
if on$i and lease ~= NO_LEASE then
  tail$i = pack('<c0c8d', tail$i, lease, now + lease_us)
  n$i = n$i + 1
  if n$i > in_flight then in_flight = n$i end
end
-- settle
