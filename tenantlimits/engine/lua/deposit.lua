-- deposit: keeps hours that another store has counted until they are flushed. Each replaces what stood for its source.
--
-- KEYS[1]   closed hours of the tenant (hash: hour in s, a colon and the source -> usage, see usage.lua)
-- KEYS[2]   the shard's tenants with unflushed usage (set)
-- ARGV[1]   the tenant's member in that set
-- ARGV[2k], ARGV[2k+1]   hour and source; usage
-- reply     1
-- cost      O(number of hours)
for k = 2, #ARGV, 2 do call('HSET', KEYS[1], ARGV[k], ARGV[k + 1]) end
call('PEXPIRE', KEYS[1], USAGE_TTL_MS)
call('SADD', KEYS[2], ARGV[1])
call('PEXPIRE', KEYS[2], USAGE_TTL_MS + 3600000)
return 1
