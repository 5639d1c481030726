-- usage: counts the operation for the tenant, its lane and the running hour.
--
-- Usage is what follows the state of a tenant's limits:
--   4 bytes I  start of the hour, s;  4 bytes I  ms into the hour when counting began (tells a store that lost data)
--   1 byte  1 while something is not flushed;  1 byte  number of lanes
--   22 bytes for each lane: tag c4, allowed I, refused I, peak in flight H, cost milli-units d
--   16 bytes for each limit that refused in a lane: lane tag c4, state id c4, refused I, observed I
local seconds = (now - now % 1000000) / 1000000
local hour = seconds - (seconds + hour_offset) % 3600
local usage, running, flushed, lanes = sub(state0, end0), -1, true, 0
if usage ~= '' then
  local _, unflushed
  running, _, unflushed, lanes = unpack('<IIBB', usage)
  flushed = unflushed == 0
end
if hour > running then
  if not flushed then
    call('HSET', KEYS[3], running, usage)
    call('PEXPIRE', KEYS[3], USAGE_TTL_MS)
  end
  usage, lanes, flushed = pack('<IIBB', hour, math.floor(now / 1000) % 3600000, 1, 0), 0, true
end
if flushed then
  -- Once an hour at least, and for an hour more than usage: the set must outlive the usage of everybody in it.
  usage = sub(usage, 1, 8) .. '\1' .. sub(usage, 10)
  call('SADD', KEYS[4], sub(policy, member_at))
  call('PEXPIRE', KEYS[4], USAGE_TTL_MS + 3600000)
end

local lane_at, lanes_end = 11, 11 + 22 * lanes
while lane_at < lanes_end and sub(usage, lane_at, lane_at + 3) ~= lane do lane_at = lane_at + 22 end
if lane_at == lanes_end then
  usage = sub(usage, 1, 9) .. pack('<B', lanes + 1) .. sub(usage, 11, lane_at - 1)
    .. lane .. pack('<IIHd', 0, 0, 0, 0) .. sub(usage, lane_at)
  lanes_end = lanes_end + 22
end
for miss = 1, #missed, 5 do
  local key, spot = lane .. sub(missed, miss, miss + 3), lanes_end
  while spot < #usage and sub(usage, spot, spot + 7) ~= key do spot = spot + 16 end
  if spot > #usage then usage = usage .. key .. pack('<II', 0, 0) end
  local times_refused, times_observed = unpack('<II', usage, spot + 8)
  if sub(missed, miss + 4, miss + 4) == 'r' then
    times_refused = times_refused + times
  else
    times_observed = times_observed + times
  end
  usage = sub(usage, 1, spot + 7) .. pack('<II', times_refused, times_observed) .. sub(usage, spot + 16)
end

-- The lane's numbers, and what stands before and after them in the usage that is written.
local allowed, refusals, peak, spent = unpack('<IIHd', usage, lane_at + 4)
local before, after = sub(usage, 1, lane_at + 3), sub(usage, lane_at + 22)
allowed, refusals, spent = allowed + allowed_now, refusals + refused_now, spent + cost_now
if in_flight > peak then peak = math.min(65535, in_flight) end
