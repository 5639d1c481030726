-- gcra: one bucket as most libraries keep it: the theoretical arrival time as text in a key of its own.
--
-- KEYS[1]   theoretical arrival time in s (string)
-- ARGV      burst; units per period; period in s; cost
-- reply     1 or 0; remaining; wait and time until full in s, as text
local burst, rate, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local interval = period / rate
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local next_arrival = arrival + interval * cost
local ahead = now - (next_arrival - interval * burst)
if ahead < 0 then return {0, 0, tostring(-ahead), tostring(arrival - now)} end
local full = next_arrival - now
redis.call('SET', KEYS[1], string.format('%.6f', next_arrival), 'EX', math.ceil(full))
return {cost, math.floor(ahead / interval), '-1', tostring(full)}
