-- verdict: what the answer of one limit means for the whole operation. mode: 0 off, 1 observe, 2 enforce.
-- What does not fit and is only observed is not recorded, but a slot is: that of an operation which is running.
on$i = mode$i > 0
if on$i and not ($fits) then
  missed = missed .. sub(policy, $id_at, $id_to) .. (mode$i > 1 and 'r' or 'o')
  mask, refused, on$i = mask + $bit, refused or mode$i > 1, $is_cap
end
