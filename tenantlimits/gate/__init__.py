"""The gate: the one place where operations are admitted.

    decision = admit(lane="reads")                            # ask and record; never raises for a refusal
    with hold(lane="exports", cost=5) as admission: ...       # keep the slot until the block ends; raises LimitExceeded
    settle(cost=3)                                            # correct the cost of what is under way

Who asks is whoever the work under way is for (see `tenancy`), or the `tenant` that is named. Costs are units in steps
of 0.001; a lane's own cost where none is given. Each function has an async twin with the letter a before its name.
"""

from tenantlimits.gate import policies
from tenantlimits.gate.admissions import Admission
from tenantlimits.gate.operations import aadmit, admit, ahold, apeek, asettle, hold, peek, settle

__all__ = ["Admission", "aadmit", "admit", "ahold", "apeek", "asettle", "connect", "hold", "peek", "settle"]


def connect() -> None:
    """Move the stamps of policies that change, from now on. The app calls it when it is ready."""
    policies.connect()
