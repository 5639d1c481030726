"""What happened: counted in the store, written down by the hour, and read again for people and programs.

flush()                           # write down what the stores have counted; safe at any time, any number of times
last_hours("acme")                # what a tenant used, by hour and lane, up to now
ledger_of("acme").history(...)    # the same for any hours or days
"""

from tenantlimits.usage.flushing import Flushed, FlushFailed, flush
from tenantlimits.usage.history import Figures, History, Ledger, Span, Total, last_hours, ledger_of, total
from tenantlimits.usage.origins import Former, former_amounts, lent_tier
from tenantlimits.usage.periods import Resolution

__all__ = [
    "Figures",
    "FlushFailed",
    "Flushed",
    "Former",
    "History",
    "Ledger",
    "Resolution",
    "Span",
    "Total",
    "flush",
    "former_amounts",
    "last_hours",
    "ledger_of",
    "lent_tier",
    "total",
]
