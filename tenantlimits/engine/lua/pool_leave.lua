-- pool_leave: operations have ended, or wait no more. Ending is by name: a second time, or a stranger's, ends nothing.
--
-- KEYS[1..5]  the pool, see pool.lua
-- ARGV[1..2]  see pool.lua
-- ARGV[3..]   ids of operations, 8 bytes each
-- reply       for each 1 where it waited or had a slot, else 0; then the ids of this process's that have slots now
-- cost        O(log(operations of the pool)) for each that ends or is granted
local reply = {}
for i = 3, #ARGV do
  local one = operation(ARGV[i])
  local is_there = one and one.process == process
  reply[#reply + 1] = is_there and one.status ~= FREED and 1 or 0
  if is_there then
    finish(one)
    hand_on()
  end
end
close()
return with_granted(reply)
