"""Random limits for the property tests."""

from dataclasses import replace

from hypothesis import strategies as st

from tenantlimits.domain.limits import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    UNLIMITED,
    Counts,
    Kind,
    Layer,
    Limit,
    LimitInForce,
    Mode,
)

NAMES = "abcdefg"
LANES = ["x", "y"]
COSTS = st.sampled_from([0, 0.25, 1, 1, 1, 2, 5, 50]) | st.integers(0, 6000).map(lambda thousandths: thousandths / 1000)


@st.composite
def limits(draw: st.DrawFn) -> LimitInForce:
    """A limit of any kind, lane, layer and mode, sometimes lifted by an unlimited override."""
    # A kind usually belongs to a name, so that state is carried over a change of limits.
    name = draw(st.sampled_from(NAMES))
    kind = list(Kind)[NAMES.index(name) % len(Kind)] if draw(st.integers(0, 9)) else draw(st.sampled_from(Kind))
    lane = draw(st.sampled_from(["all", *LANES]))
    limit = Limit(
        name=name,
        lane=lane,
        kind=kind,
        amount=draw(st.sampled_from([0, 1, 2, 3, 5, 10, UNLIMITED])),
        period_seconds=_period(draw, kind),
        layer=draw(st.sampled_from(Layer)),
        mode=draw(st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE, Mode.OFF])),
        counts=Counts.REQUESTS if lane == "all" else draw(st.sampled_from(Counts)),
    )
    if kind is Kind.TOKEN_BUCKET and 0 < limit.amount < UNLIMITED:
        limit = replace(limit, burst=draw(st.sampled_from([None, 1, 4, 2 * limit.amount])))
    tier_limit = replace(limit, amount=5) if limit.amount == UNLIMITED and draw(st.booleans()) else limit
    return LimitInForce(limit=limit, tier_limit=tier_limit)


def _period(draw: st.DrawFn, kind: Kind) -> int | None:
    if kind is Kind.CONCURRENCY:
        return None
    return draw(st.sampled_from([HOUR, DAY, MONTH] if kind is Kind.CALENDAR_QUOTA else [1, 3, MINUTE]))


TIERS = st.lists(limits(), max_size=7, unique_by=lambda one: one.limit.name)
"""The limits of a tier."""
