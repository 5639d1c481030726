"""What changed.

Public, sent when the change is committed; a receiver's error is logged and undoes nothing:
- `override_changed`: sender Override, `override` the row, `created` whether it is new.
- `tier_changed`: sender Tenant, `tenant` its key, `old` and `new` slugs, None for the default tier.
- `store_degraded`: sender Health, `error` what the store failed with. This process asks it no more until it answers.
- `store_recovered`: sender Health, `seconds` how long that took. Both come once per process, from any of its threads.

Internal, sent inside the transaction, before it is known whether it will be committed:
- `policy_changed`: sender the model, `tenants` the keys whose policy may differ, None for every tenant's; `using` the
  database alias, for `transaction.on_commit`.
"""

from django.dispatch import Signal

override_changed = Signal()
tier_changed = Signal()
store_degraded = Signal()
store_recovered = Signal()
policy_changed = Signal()
