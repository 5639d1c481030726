-- verdict: what the answer of one limit means for the whole operation. mode: 0 off, 1 observe, 2 enforce.
on$i = mode > 0
fits$i = fits$i or not on$i
if not fits$i then
  missed = missed .. sub(policy, $id_at, $id_to) .. (mode > 1 and 'r' or 'o')
  mask, refused = mask + $bit, refused or mode > 1
end
