-- token_bucket: use drains at the rate; at most burst + rate x w in any window w.
-- Fields a$i used milli-units, b$i at us (negative: in debt). Policy: burst d, rate per us d, mode d.
-- read
local at, most = b$i, burst$i
if at < 0 then at, most = -at, burst$i * 2 end
local elapsed = now - at
if not (elapsed >= 0) then
  -- The clock stepped back: time starts again here, or the bucket would stay frozen until it has caught up.
  elapsed, moved$j = 0, true
end
if not (a$i <= most) then a$i = most end
if a$i > 0 then
  a$i = a$i - elapsed * per_us$i
  if a$i < 0 then a$i = 0 end
end
if b$i < 0 and a$i > burst$i then b$i = -now else b$i = now end
-- fits
a$i + $cost <= burst$i + 1e-6 or $cost == 0
-- record
if on$i then a$i = a$i + $cost end
-- settle
a$i = math.max(0, math.min(a$i + delta, burst$i * 2))
b$i = a$i > burst$i and -now or now
