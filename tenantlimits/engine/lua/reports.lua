-- reports: what the pools of all processes hold, of those that announced themselves of late. It changes nothing.
--
-- KEYS[1]   processes, see announce.lua
-- KEYS[2]   reports, see announce.lua
-- ARGV[1]   how long a process that is silent counts, ms
-- reply     number of processes; then for each that holds anything: its id, s since it said so, what
-- cost      O(number of processes)
local seconds = math.floor(now / 1000000)
local alive = call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', seconds - ARGV[1] / 1000), '+inf', 'WITHSCORES')
local reply = {#alive / 2}
for i = 1, #alive, 2 do
  local held = call('HGET', KEYS[2], alive[i])
  if held then
    reply[#reply + 1] = alive[i]
    reply[#reply + 1] = math.max(0, seconds - alive[i + 1])
    reply[#reply + 1] = held
  end
end
return reply
