-- sliding_counter: what was used in the window of now, and a part of what was used in the one before it; approximate.
-- Fields a$i used milli-units, b$i used before, c$i at us, d$i length of its windows us (aligned to the epoch).
-- Policy: amount d, period us d, mode d.
-- read
-- Counted in windows of another length: where the last moment of each lies, strict.
local window, counted_from = c$i - c$i % period$i, c$i - c$i % d$i
if counted_from > window then
  a$i, b$i = a$i + b$i, 0
elseif counted_from <= window - period$i then
  b$i = 0
end
local start = now - now % period$i
if start < window then
  -- The clock stepped back over the start of the window: everything counts in that of now, strict.
  a$i, b$i = a$i + b$i, 0
elseif start == window + period$i then
  a$i, b$i = 0, a$i
elseif start > window then
  a$i, b$i = 0, 0
end
if not (c$i <= now) then moved$j = true end
c$i, d$i = now, period$i
-- fits
b$i * (start + period$i - now) / period$i <= amount$i - $cost - a$i or $cost == 0
-- record
if on$i then a$i = a$i + $cost end
-- settle
if witness$i == start then
  a$i = math.max(0, math.min(a$i + delta, math.max(a$i, 2 * amount$i)))
elseif witness$i == start - period$i then
  b$i = math.max(0, math.min(b$i + delta, math.max(b$i, 2 * amount$i)))
end
