-- token_bucket: use drains at the rate; at most burst + rate x w in any window w.
-- Fields a$i used milli-units, b$i at us (negative: in debt). Policy: burst d, rate per us d, mode d.
-- read
local burst, per_us, mode = unpack('<ddd', policy, $at)
local in_debt, elapsed = b$i < 0, now - math.abs(b$i)
if elapsed < 0 then
  -- The clock stepped back: time starts again here, or the bucket would stay frozen until it has caught up.
  elapsed, moved$j = 0, true
end
local most = in_debt and burst * 2 or burst
if a$i > most then a$i = most end
if a$i > 0 then a$i = a$i - elapsed * per_us end
if a$i < 0 then a$i = 0 end
b$i = (in_debt and a$i > burst) and -now or now
-- ask
fits$i = $cost == 0 or a$i + $cost <= burst
-- record
if on$i and fits$i then a$i = a$i + $cost end
-- settle
a$i = math.max(0, math.min(a$i + delta, burst * 2))
b$i = a$i > burst and -now or now
