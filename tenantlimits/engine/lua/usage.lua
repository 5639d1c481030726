-- usage: counts the operation for the tenant, its lane and the running hour.
--
-- Usage is what follows the state of a tenant's limits:
--   4 bytes I  start of the hour, s;  4 bytes I  ms into the hour when counting began (tells a store that lost data)
--   1 byte  1 while something is not flushed;  1 byte  number of lanes
--   22 bytes for each lane: tag c4, allowed I, refused I, peak in flight H, cost milli-units d
--   16 bytes for each limit that refused in a lane: lane tag c4, state id c4, refused I, observed I
local seconds = math.floor(now / 1000000)
local hour = seconds - (seconds + hour_offset) % 3600
local flushed = true
if usage ~= '' then
  flushed = byte(usage, 9) == 0
  local running = unpack('<I', usage)
  if hour > running then
    if not flushed then
      call('HSET', KEYS[3], running, usage)
      call('PEXPIRE', KEYS[3], USAGE_TTL_MS)
    end
    usage = ''
  end
end
if usage == '' then usage = pack('<IIBB', hour, math.floor(now / 1000) % 3600000, 0, 0) end
if flushed then call('SADD', KEYS[4], member) end

local lanes, at = byte(usage, 10), 11
while at < 11 + 22 * lanes and sub(usage, at, at + 3) ~= lane do at = at + 22 end
if at == 11 + 22 * lanes then
  lanes = lanes + 1
  usage = sub(usage, 1, at - 1) .. lane .. pack('<IIHd', 0, 0, 0, 0) .. sub(usage, at)
end
local allowed_before, refused_before, peak, cost_before = unpack('<IIHd', usage, at + 4)
usage = sub(usage, 1, 8) .. pack('<BB', 1, lanes) .. sub(usage, 11, at + 3)
  .. pack('<IIHd', allowed_before + allowed_now, refused_before + refused_now,
    math.min(65535, math.max(peak, in_flight)), cost_before + cost_now)
  .. sub(usage, at + 22)

for miss = 1, #missed, 5 do
  local key, spot = lane .. sub(missed, miss, miss + 3), 11 + 22 * lanes
  while spot < #usage and sub(usage, spot, spot + 7) ~= key do spot = spot + 16 end
  if spot > #usage then usage = usage .. key .. pack('<II', 0, 0) end
  local times_refused, times_observed = unpack('<II', usage, spot + 8)
  if sub(missed, miss + 4, miss + 4) == 'r' then
    times_refused = times_refused + 1
  else
    times_observed = times_observed + 1
  end
  usage = sub(usage, 1, spot + 7) .. pack('<II', times_refused, times_observed) .. sub(usage, spot + 16)
end
