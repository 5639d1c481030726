-- sliding_log: exact in every window, one entry for each operation, at most 128 entries.
-- Field n$i, tail$i: at us d, cost milli-units d for each entry, oldest first. Policy: amount d, window us d, mode d.
-- read
local ahead = n$i > 0 and unpack('<d', tail$i, 16 * n$i - 15) - now or 0
if ahead > 0 then
  -- The clock stepped back: the whole log moves back with it.
  local shifted = {}
  for at = 1, 16 * n$i, 16 do
    shifted[#shifted + 1] = pack('<d', unpack('<d', tail$i, at) - ahead) .. sub(tail$i, at + 8, at + 15)
  end
  tail$i, moved$j = table.concat(shifted), true
end
local first, total = 1, 0
for at = 1, 16 * n$i, 16 do
  local when, charged = unpack('<dd', tail$i, at)
  if when + window$i > now then total = total + charged else first = at + 16 end
end
if first > 1 then
  tail$i = sub(tail$i, first)
  n$i = #tail$i / 16
end
-- fits
total + $cost <= amount$i or $cost == 0
-- record
if on$i and $cost > 0 then
  if n$i >= 128 then
    -- Strict, never lax: the two oldest count as long as the younger of them.
    local _, oldest, when, second = unpack('<dddd', tail$i, 1)
    tail$i = pack('<dd', when, oldest + second) .. sub(tail$i, 33)
  end
  tail$i = tail$i .. pack('<dd', now, $cost)
  n$i = #tail$i / 16
end
-- settle
local change = math.min(delta, math.max(0, 2 * amount$i - total))
for at = 1, 16 * n$i, 16 do
  local when, charged = unpack('<dd', tail$i, at)
  if when == witness$i then
    tail$i = sub(tail$i, 1, at + 7) .. pack('<d', math.max(0, charged + change)) .. sub(tail$i, at + 16)
    break
  end
end
