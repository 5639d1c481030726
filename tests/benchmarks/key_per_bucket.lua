-- key_per_bucket: the same decision in the usual layout, a key for everything: check all, then record all.
--
-- KEYS[1]   leases (sorted set: lease, deadline in us);  KEYS[2]  usage (hash);  KEYS[3..]  buckets (hash: used, at)
-- ARGV      cost in milli-units; lease length in us; cap; lease; then burst and rate per us for each bucket
-- reply     1 or 0
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local cost, lease_us, cap, lease = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local fits = redis.call('ZCARD', KEYS[1]) < cap
local used = {}
for k = 3, #KEYS do
  local burst, per_us = tonumber(ARGV[2 * k - 1]), tonumber(ARGV[2 * k])
  local state = redis.call('HMGET', KEYS[k], 'used', 'at')
  used[k] = math.max(0, (tonumber(state[1]) or 0) - (now - (tonumber(state[2]) or now)) * per_us)
  fits = fits and used[k] + cost <= burst
end
if not fits then
  redis.call('HINCRBY', KEYS[2], 'refused', 1)
  return 0
end
for k = 3, #KEYS do
  redis.call('HSET', KEYS[k], 'used', used[k] + cost, 'at', now)
  redis.call('PEXPIRE', KEYS[k], 86400000)
end
redis.call('ZADD', KEYS[1], now + lease_us, lease)
redis.call('PEXPIRE', KEYS[1], 86400000)
redis.call('HINCRBY', KEYS[2], 'allowed', 1)
redis.call('HINCRBY', KEYS[2], 'cost', cost)
redis.call('PEXPIRE', KEYS[2], 172800000)
return 1
