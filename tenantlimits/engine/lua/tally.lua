-- tally: counts refusals that a process repeated from memory, as if each had been asked here. No limit's state changes.
--
-- KEYS[1]   not used: the keys are those of an admission
-- KEYS[2]   state of the tenant;  KEYS[3]  its closed hours;  KEYS[4]  the shard's tenants with unflushed usage
-- ARGV[1]   bytes: offset of the tenant's hours in s d, number of refusals I, tag of the lane c4
-- ARGV[2]   for each limit that did not fit: state id c4, r where it refused and o where it only observed
-- ARGV[3]   the tenant's member in the set
-- reply     1
-- cost      O(number of limits)
local policy, member_at, missed = ARGV[3], 1, ARGV[2]
local hour_offset, times, lane = unpack('<dIc4', ARGV[1])
local state0 = call('GET', KEYS[2]) or NO_LEASE .. '\1\0'
local _, _, _, end0 = measure(state0)
local allowed_now, refused_now, cost_now, in_flight = 0, times, 0, 0
