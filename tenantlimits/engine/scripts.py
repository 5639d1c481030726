"""The scripts of the store. Decisions are composed per shape, from one snippet for each kind of limit.

A script that loops over limits which describe themselves costs twice the server time of one in which every position
is known (docs/decisions/0001-packed-state.md), so every shape of a plan gets its own, composed once and cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files
from itertools import groupby
from string import Template

from tenantlimits.domain.plans import Plan, Subject
from tenantlimits.engine.base import USAGE_TTL_MS
from tenantlimits.engine.resp import bulk

FRESH_TTL_MS = 60_000
"""A tenant's state that holds nothing but its stamp lives so long."""
LAYOUT_VERSION = 1

# The question begins with these: what changes with every call, then the policy. The shapes follow, the numbers of the
# asked limits, and for each subject how long its state lives. See `engine.packing.packed`.
HEADER = {
    "cost": "d", "lease": "c8",
    "valid_from": "d", "valid_until": "d", "hour_offset": "d", "lease_us": "d",
    "lane": "c4", "tenant_stamp": "c8", "shard_stamp": "c8",
}  # fmt: skip
HEADER_BYTES = 16 + 4 * 8 + 4 + 8 + 8

SNIPPETS = {
    "Bucket": "token_bucket", "Quota": "calendar_quota", "Counter": "sliding_counter", "Log": "sliding_log",
    "Cap": "concurrency",
}  # fmt: skip
KINDS = {"Bucket": 0, "Quota": 1, "Counter": 2, "Log": 4, "Cap": 5}
"""The low 3 bits of a state id."""
NUMBERS = {
    "Bucket": ("burst", "per_us", "mode"),
    "Quota": ("amount", "ends", "next_end", "mode"),
    "Counter": ("amount", "period", "mode"),
    "Log": ("amount", "window", "mode"),
    "Cap": ("amount", "mode"),
}
# What usage.lua leaves: the lane's numbers, between what stands before and after them.
USAGE = {"before": "c0", "allowed": "I", "refusals": "I", "peak": "H", "spent": "d", "after": "c0"}
TIMELESS = ("discard", "move", "release")
"""Scripts that need no clock, and so do not ask for it."""
GROUP = 8
"""So many limits are read from the policy at once: one unpack is cheaper than eight, but Lua has only 200 locals."""

PACKED = 64
"""So many values are packed at once: Lua has 250 registers, for locals and arguments together."""


@dataclass(frozen=True, slots=True)
class Script:
    """Lua text and its SHA-1, by which a server knows it. `call` begins a command that runs it, packed."""

    text: str
    sha: str
    call: tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class TermShape:
    """What of a term is in the text of its script; its numbers come with every call."""

    spec: str
    subject: Subject
    asked: bool
    by_cost: bool

    @property
    def has_tail(self) -> bool:
        """Whether the term keeps a list, and not only numbers."""
        return self.spec in ("Log", "Cap")

    @property
    def letters(self) -> str:
        """Its fixed fields in the state, each a double, by the letters of their names; of a list, only its length."""
        return "" if self.has_tail else "abcd" if self.spec == "Counter" else "ab"

    @property
    def fixed_bytes(self) -> int:
        """The length of its fixed fields in the state."""
        return 8 * len(self.letters) or 4


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a plan is in the text of its script."""

    terms: tuple[TermShape, ...]
    counts_usage: bool
    has_stamps: bool

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Subjects whose state the script reads: the tenant where its usage is counted, and all that are asked."""
        asked = {term.subject for term in self.terms if term.asked}
        return tuple(sorted(asked | ({Subject.TENANT} if self.counts_usage else set())))

    def of(self, subject: Subject) -> list[tuple[int, TermShape]]:
        """The terms of one subject with their numbers."""
        return [(i, term) for i, term in enumerate(self.terms) if term.subject is subject]

    @property
    def asked(self) -> list[tuple[int, TermShape]]:
        """The asked terms with their numbers."""
        return [(i, term) for i, term in enumerate(self.terms) if term.asked]


def shape_of(plan: Plan) -> Shape:
    """The shape of a plan."""
    terms = tuple(TermShape(type(t.spec).__name__, t.subject, t.asked, t.by_cost) for t in plan.terms)
    return Shape(terms, plan.counts_usage, plan.stamps is not None)


@cache
def _source(name: str) -> str:
    return files(__package__).joinpath("lua", f"{name}.lua").read_text("utf-8")


@cache
def _sections(name: str) -> dict[str, Template]:
    """The parts of a snippet, by the comment lines that head them."""
    parts: dict[str, list[str]] = {"": []}
    for line in _source(name).splitlines():
        if line in ("-- read", "-- fits", "-- record", "-- settle"):
            parts[line[3:]] = []
        else:
            parts[next(reversed(parts))].append(line)
    return {section: Template("\n".join(lines)) for section, lines in parts.items()}


def _script(*parts: str) -> Script:
    text = "\n".join(parts)
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(text, sha, (bulk("EVALSHA"), bulk(sha)))


def _head(caller_clock: bool) -> str:
    """The prelude and the clock: the server's own, or for tests and simulations the caller's in the last argument."""
    clock = "tonumber(table.remove(ARGV))" if caller_clock else "call('TIME'); now = now[1] * 1000000 + now[2]"
    return (
        f"{_source('prelude')}\nlocal USAGE_TTL_MS, FRESH_TTL_MS = {USAGE_TTL_MS}, {FRESH_TTL_MS}\nlocal now = {clock}"
    )


@cache
def whole(name: str, *, caller_clock: bool) -> Script:
    """A script that needs no plan, by its name."""
    head = _source("prelude") if name in TIMELESS else _head(caller_clock)
    return _script(head, _source("pool" if name.startswith("pool_") else "layout"), _source(name))


@cache
def admit(shape: Shape, *, caller_clock: bool) -> Script:
    """Decides one operation over every limit that is asked, and records it only if all of them let it in.

    KEYS      stamp of the shard, tenant's state, closed hours, pending set (where usage is counted); then the state
              of every other asked subject
    ARGV      bytes: cost d in milli-units, lease c8, policy (`engine.packing.packed`)
    reply     bytes: status B, now d in us, mask d of the asked limits that did not fit, then for each asked limit a
              bucket's used d, a quota's used d and end d, a counter's used d and before d, a log's or a cap's number I,
              then the entries of the logs
    cost      O(number of limits); one round trip; a refusal changes no limit's state, only usage
    """
    return _script(_head(caller_clock), *_Composer(shape).decision(writes=True))


@cache
def peek(shape: Shape, *, caller_clock: bool) -> Script:
    """The answer of `admit`, and nothing written."""
    return _script(_head(caller_clock), *_Composer(shape).decision(writes=False))


@cache
def settle(shape: Shape, *, caller_clock: bool) -> Script:
    """Charges or gives back a difference in the limits that the operation was charged in.

    KEYS      as `admit`
    ARGV      as `admit`, with the difference as cost; bytes: for each asked limit its witness d (0: was not charged)
    reply     bytes: status B, now d in us
    cost      O(number of limits); one round trip
    """
    return _script(_head(caller_clock), *_Composer(shape).settling())


@cache
def tally(*, caller_clock: bool) -> Script:
    """Counts repeated refusals; see lua/tally.lua, around what counts every other operation."""
    parts = (_source(name) for name in ("layout", "tally", "usage", "counted"))
    return _script(_head(caller_clock), *parts)


class _Composer:
    """Puts the text of one shape's scripts together. Positions in Lua count from 1."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.key_of = _key_numbers(shape)
        self.id_at: dict[int, int] = {}
        self.numbers_at: dict[int, int] = {}
        at = HEADER_BYTES + 1
        for subject in shape.subjects:
            for position, (i, _) in enumerate(shape.of(subject)):
                self.id_at[i] = at + 2 + 4 * position
            at += 2 + 4 * len(shape.of(subject))
        for i, term in shape.asked:
            self.numbers_at[i], at = at, at + 8 * len(NUMBERS[term.spec])
        self.ttls_at = at

    def decision(self, *, writes: bool) -> Iterator[str]:
        """The parts of admit and peek."""
        yield from self._opening()
        yield "local one = cost > 0 and 1000 or 0\nlocal mask, refused, missed, in_flight = 0, false, '', 0"
        for group in self._groups():
            yield "local " + ", ".join(f"on{i}" for i, _ in group)
            yield f"do\n{self._numbers(group)}"
            yield from (f"do\n{self._fill(i, 'read')}\n{self._verdict(i)}\nend" for i, _ in group)
            yield "end"
        if writes:
            yield "if cost > 0 or lease ~= NO_LEASE then\nif not refused then"
            yield from (self._fill(i, "record") for i, _ in self.shape.asked)
            yield "end"
            yield from self._writing("not refused", "refused and 0 or 1, refused and 1 or 0, refused and 0 or cost")
            yield "end"
        yield self._reply()

    def settling(self) -> Iterator[str]:
        """The parts of settle."""
        yield from self._opening()
        witnesses = ", ".join(f"witness{i}" for i, _ in self.shape.asked)
        yield f"local {witnesses} = unpack('<{'d' * len(self.shape.asked)}', ARGV[2])" if witnesses else ""
        yield "local delta, missed, in_flight = cost, '', 0"
        for group in self._groups():
            yield f"do\n{self._numbers(group)}"
            for i, term in group:
                if term.by_cost and term.spec != "Cap":
                    yield f"if witness{i} ~= 0 then\n{self._fill(i, 'read', 'settle')}\nend"
            yield "end"
        yield from self._writing("true", "0, 0, delta")
        yield "return pack('<Bd', 1, now)"

    def _opening(self) -> Iterator[str]:
        """Reads the policy, compares stamps and validity, and reads every subject."""
        shapes = {f"shape{int(subject)}": f"c{2 + 4 * len(self.shape.of(subject))}" for subject in self.shape.subjects}
        header = HEADER | shapes
        yield f"local policy = ARGV[1]\nlocal {', '.join(header)} = unpack('<{''.join(header.values())}', policy)"
        kept = {f"kept{int(subject)}": f"KEYS[{self.key_of[subject]}]" for subject in self.shape.subjects}
        if self.shape.has_stamps:
            kept["shard_stamp_now"] = "KEYS[1]"
        if kept:
            yield f"local {', '.join(kept)} = values(call('MGET', {', '.join(kept.values())}))"
        if self.shape.has_stamps:
            yield _source("stamps")
        yield "if now < valid_from or now >= valid_until then return pack('<Bd', 3, now) end"
        for subject in self.shape.subjects:
            yield from self._reading(subject)

    def _reading(self, subject: Subject) -> Iterator[str]:
        j, terms = int(subject), self.shape.of(subject)
        fields, fixed_at = _fields(terms), 11 + 4 * len(terms)
        yield f"kept{j} = kept{j} or NO_LEASE .. '\\{LAYOUT_VERSION}\\0'"
        yield f"local state{j}, after{j}, moved{j} = kept{j}, nil, false"
        yield f"if sub(state{j}, 9, {fixed_at - 1}) ~= shape{j} then"
        yield f"{_source('layout')}\n{_source('remap')}"
        kinds = "".join(f"\\{KINDS[term.spec]}" for _, term in terms)
        yield f"state{j}, after{j} = remap(state{j}, shape{j}, '{kinds}')\nend"
        if fields:
            yield f"local {', '.join(fields)} = unpack('<{_format(fields)}', state{j}, {fixed_at})"
        yield f"local end{j} = {fixed_at + sum(term.fixed_bytes for _, term in terms)}"
        for run in _runs(terms):
            yield from _tail(j, run)

    def _groups(self) -> Iterator[list[tuple[int, TermShape]]]:
        asked = self.shape.asked
        return (asked[start : start + GROUP] for start in range(0, len(asked), GROUP))

    def _numbers(self, group: list[tuple[int, TermShape]]) -> str:
        names = [f"{name}{i}" for i, term in group for name in NUMBERS[term.spec]]
        return f"local {', '.join(names)} = unpack('<{'d' * len(names)}', policy, {self.numbers_at[group[0][0]]})"

    def _writing(self, recorded: str, counted: str) -> Iterator[str]:
        """Counts usage and writes every subject that has changed; `counted` is what is allowed, refused and spent."""
        subjects = self.shape.subjects
        if not subjects:
            return
        ttls = ", ".join(f"ttl{int(subject)}" for subject in subjects)
        yield f"local {ttls}, member_at = unpack('<{'s' * len(subjects)}', policy, {self.ttls_at})"
        for subject in subjects:
            j = int(subject)
            changed = f"({recorded}) or moved{j}"
            if subject is Subject.TENANT and self.shape.counts_usage:
                yield f"local times, allowed_now, refused_now, cost_now = 1, {counted}\n{_source('usage')}"
                yield f"local anew\nif {changed} then anew = {self._packed(subject, USAGE)}\nelse"
                yield f"anew = {_packed({'sub(kept0, 1, (after0 or end0) - 1)': 'c0'} | USAGE)}\nend"
                yield "call('SET', KEYS[2], anew, 'PX', ttl0)"
            else:
                key = f"KEYS[{self.key_of[subject]}]"
                yield f"if {changed} then call('SET', {key}, {self._packed(subject, {})}, 'PX', ttl{j}) end"

    def _packed(self, subject: Subject, more: dict[str, str]) -> str:
        """The new state in one pack: every string on the way would be hashed and kept by Lua."""
        terms = self.shape.of(subject)
        tails = {f"tail{run[0][0]}": "c0" for run in _runs(terms) if any(term.has_tail for _, term in run)}
        return _packed({f"state{int(subject)}": f"c{10 + 4 * len(terms)}"} | _fields(terms) | tails | more)

    def _reply(self) -> str:
        values, formats, logs = [], "", ""
        for i, term in self.shape.asked:
            values += [f"n{i}"] if term.has_tail else [f"a{i}"]
            formats += "I" if term.has_tail else "d"
            if term.spec in ("Quota", "Counter"):
                values.append(f"b{i}")
                formats += "d"
            if term.spec == "Log":
                logs += f" .. tail{i}"
        listed = "".join(f", {value}" for value in values)
        return f"return pack('<Bdd{formats}', refused and 0 or 1, now, mask{listed}){logs}"

    def _fill(self, i: int, *sections: str) -> str:
        term = self.shape.terms[i]
        names = {"i": i, "j": int(term.subject), "cost": "cost" if term.by_cost else "one"}
        return "\n".join(_sections(SNIPPETS[term.spec])[section].substitute(names) for section in sections)

    def _verdict(self, i: int) -> str:
        bit = [number for number, _ in self.shape.asked].index(i)
        names = {
            "i": i, "fits": self._fill(i, "fits"), "bit": 2**bit, "id_at": self.id_at[i], "id_to": self.id_at[i] + 3,
            "is_cap": "true" if self.shape.terms[i].spec == "Cap" else "false",
        }  # fmt: skip
        return _sections("verdict")[""].substitute(names)


def _key_numbers(shape: Shape) -> dict[Subject, int]:
    first = 5 if shape.counts_usage else 1
    others = [s for s in shape.subjects if not (shape.counts_usage and s is Subject.TENANT)]
    return {Subject.TENANT: 2} | {subject: first + n for n, subject in enumerate(others)}


def _runs(terms: Iterable[tuple[int, TermShape]]) -> list[list[tuple[int, TermShape]]]:
    """The terms one by one, but neighbours that are not asked together: to the script they are raw bytes.

    Lua has room for 200 names, and a tenant with many lanes has as many limits.
    """
    return [list(run) for _, run in groupby(terms, key=lambda one: one[0] if one[1].asked else None)]


def _fields(terms: Iterable[tuple[int, TermShape]]) -> dict[str, str]:
    """The fixed fields of a state and their formats."""
    fields: dict[str, str] = {}
    for run in _runs(terms):
        i, term = run[0]
        if not term.asked:
            fields[f"rest{i}"] = f"c{sum(term.fixed_bytes for _, term in run)}"
        else:
            fields |= {f"{letter}{i}": "d" for letter in term.letters} or {f"n{i}": "I"}
    return fields


def _tail(j: int, run: list[tuple[int, TermShape]]) -> Iterator[str]:
    """Cuts off the tail of an asked term, or the tails of a run that is not asked."""
    i, lengths = run[0][0], [f"n{i}" for i, term in run if term.has_tail]
    if not lengths:
        return
    yield f"local tail{i}\ndo"
    if not run[0][1].asked:
        formats = "".join("I" if term.has_tail else "x" * term.fixed_bytes for _, term in run)
        yield f"local {', '.join(lengths)} = unpack('<{formats}', rest{i})"
    yield f"local after = end{j} + 16 * ({' + '.join(lengths)})"
    yield f"tail{i}, end{j} = sub(state{j}, end{j}, after - 1), after\nend"


def _packed(fields: dict[str, str]) -> str:
    """One pack; several only for a state that is so long that one call would need more registers than Lua has."""
    pairs = list(fields.items())
    parts = [dict(pairs[at : at + PACKED]) for at in range(0, len(pairs), PACKED)]
    return " .. ".join(f"pack('<{_format(part)}', {', '.join(part)})" for part in parts)


def _format(fields: dict[str, str]) -> str:
    return "".join(fields.values())
