-- announce: notes that a process decides by this store, and counts those that do.
--
-- KEYS[1]   processes (sorted set: id -> when it announced itself last, s)
-- ARGV[1]   id of the process;  ARGV[2]  how long one that is silent counts, ms
-- reply     number of processes
-- cost      O(log(number of processes))
local seconds = math.floor(now / 1000000)
call('ZADD', KEYS[1], seconds, ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', seconds - ARGV[2] / 1000)
call('PEXPIRE', KEYS[1], 4 * ARGV[2])
return call('ZCARD', KEYS[1])
