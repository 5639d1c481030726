"""The store counts under tags of four bytes: what they stand for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from tenantlimits.conf import conf
from tenantlimits.domain.limits import LimitInForce
from tenantlimits.domain.plans import lane_tag, state_id
from tenantlimits.models import Limit


@dataclass(frozen=True, slots=True)
class Names:
    """Lanes of the settings and limits of all tiers, by their tags."""

    lanes: Mapping[bytes, str]
    limits: Mapping[bytes, str]

    @classmethod
    def known(cls) -> Self:
        """Those of now."""
        limits = [row.as_domain() for row in Limit.objects.select_related("tier")]
        return cls(
            lanes={lane_tag(name): name for name in conf.LANES},
            limits={state_id(LimitInForce(limit=limit, tier_limit=limit)): limit.name for limit in limits},
        )

    def lane(self, tag: bytes) -> str:
        """The lane's name, or `#` and the tag in hexadecimal digits, which no lane is called."""
        return self.lanes.get(tag) or unknown(tag)

    def limit(self, tag: bytes) -> str:
        """The limit's name, or the same of its tag: it has been taken out since, or is of another kind now."""
        return self.limits.get(tag) or unknown(tag)


def unknown(tag: bytes) -> str:
    """How a tag is written that stands for nothing known."""
    return f"#{tag.hex()}"


def tag_of(lane: str) -> bytes:
    """The tag of a lane as it was written down, known or not."""
    return bytes.fromhex(lane[1:]) if lane.startswith("#") else lane_tag(lane)
