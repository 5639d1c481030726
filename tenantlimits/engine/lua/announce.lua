-- announce: notes that a process decides by this store and what its pools hold, and counts those that do.
--
-- KEYS[1]   processes (sorted set: id -> when it announced itself last, s)
-- KEYS[2]   reports (hash: id -> what its pools hold; of those that hold anything)
-- ARGV[1]   id of the process;  ARGV[2]  how long one that is silent counts, ms;  ARGV[3]  what its pools hold, or ''
-- reply     number of processes
-- cost      O(log(number of processes)), and O(1) for each that fell silent
local MOST = 1000
local seconds = math.floor(now / 1000000)
local oldest = seconds - ARGV[2] / 1000
for _, silent in ipairs(call('ZRANGEBYSCORE', KEYS[1], '-inf', oldest, 'LIMIT', 0, MOST)) do
  call('HDEL', KEYS[2], silent)
end
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', oldest)
call('ZADD', KEYS[1], seconds, ARGV[1])
call('PEXPIRE', KEYS[1], 4 * ARGV[2])
if ARGV[3] == '' then
  call('HDEL', KEYS[2], ARGV[1])
else
  call('HSET', KEYS[2], ARGV[1], ARGV[3])
  call('PEXPIRE', KEYS[2], 4 * ARGV[2])
end
return call('ZCARD', KEYS[1])
