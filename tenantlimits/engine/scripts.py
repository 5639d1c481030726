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
from string import Template

from tenantlimits.domain.plans import Plan, Subject
from tenantlimits.engine.base import LEASE_BYTES, USAGE_TTL_MS
from tenantlimits.engine.resp import bulk

FRESH_TTL_MS = 60_000
"""A tenant's state that holds nothing but its stamp lives so long."""
LAYOUT_VERSION = 1

# Offsets in the policy's bytes, counted from 1 as Lua does; see `engine.redis.packed`.
STAMPS_END = 16
HEADER_END = STAMPS_END + 4 * 8 + 4

_SNIPPETS = {"Bucket": "token_bucket", "Quota": "calendar_quota", "Log": "sliding_log", "Cap": "concurrency"}
_PARAMETERS = {"Bucket": 3, "Quota": 4, "Log": 3, "Cap": 2}


@dataclass(frozen=True, slots=True)
class Script:
    """Lua text and its SHA-1, by which a server knows it. `call` is how a command that runs it begins, packed."""

    text: str
    sha: str
    call: bytes


@dataclass(frozen=True, slots=True)
class TermShape:
    """What of a term is in the text of its script; its numbers come with every call."""

    spec: str
    subject: Subject
    asked: bool
    by_cost: bool

    @property
    def has_tail(self) -> bool:
        """Whether the term keeps a list, and not two numbers."""
        return self.spec in ("Log", "Cap")


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
        if line in ("-- read", "-- ask", "-- record", "-- settle"):
            parts[line[3:]] = []
        else:
            parts[next(reversed(parts))].append(line)
    return {section: Template("\n".join(lines)) for section, lines in parts.items()}


def _script(*parts: str) -> Script:
    text = "\n".join(parts)
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    return Script(text, sha, bulk("EVALSHA") + bulk(sha))


def _head(caller_clock: bool) -> str:
    """The prelude and the clock: the server's own, or for tests and simulations the caller's in the last argument."""
    clock = "tonumber(table.remove(ARGV))" if caller_clock else "call('TIME'); now = now[1] * 1000000 + now[2]"
    return (
        f"{_source('prelude')}\nlocal now = {clock}\n"
        f"local NO_LEASE, USAGE_TTL_MS, FRESH_TTL_MS = string.rep('\\0', {LEASE_BYTES}), {USAGE_TTL_MS}, {FRESH_TTL_MS}"
    )


@cache
def whole(name: str, *, caller_clock: bool) -> Script:
    """A script that needs no plan: begin, move, release, renew, collect, acknowledge."""
    return _script(_head(caller_clock), _source(name))


@cache
def admit(shape: Shape, *, caller_clock: bool) -> Script:
    """Decides one operation over every limit that is asked, and records it only if all of them let it in.

    KEYS      stamp of the shard, tenant's state, closed hours, pending set (where usage is counted); then the state
              of every other asked subject
    ARGV      policy (`engine.redis.packed`); cost d in milli-units and lease c8, packed
    reply     bytes: status B, now d in us, mask d of the asked limits that did not fit, then for each asked limit a
              bucket's used d, a quota's used d and end d, a log's or a cap's number I, then the entries of the logs
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
    ARGV      policy; delta d in milli-units, then for each asked limit its witness d (0: was not charged), packed
    reply     bytes: status B, now d in us
    cost      O(number of limits); one round trip
    """
    return _script(_head(caller_clock), *_Composer(shape).settling())


class _Composer:
    """Puts the text of one shape's scripts together. Positions in Lua count from 1."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.key_of = _key_numbers(shape)
        self.ttl_at: dict[Subject, int] = {}
        self.shape_at: dict[Subject, tuple[int, int]] = {}
        self.id_at: dict[int, int] = {}
        self.params_at: dict[int, int] = {}
        at = HEADER_END + 1
        for subject in shape.subjects:
            self.ttl_at[subject], at = at, at + 8
            self.shape_at[subject] = (at, at + 1 + 4 * len(shape.of(subject)))
            for position, (i, _) in enumerate(shape.of(subject)):
                self.id_at[i] = at + 2 + 4 * position
            at = self.shape_at[subject][1] + 1
        for i, term in shape.asked:
            self.params_at[i], at = at, at + 8 * _PARAMETERS[term.spec]
        self.member_at = at

    def decision(self, *, writes: bool) -> Iterator[str]:
        """The parts of admit and peek."""
        yield "local policy = ARGV[1]\nlocal cost, lease = unpack('<dc8', ARGV[2])\nlocal one = cost > 0 and 1000 or 0"
        yield from self._opening()
        yield "local mask, refused, missed, in_flight = 0, false, '', 0"
        for bit, (i, term) in enumerate(self.shape.asked):
            ask = self._fill(i, term, "read", "ask"), _sections("verdict")[""].substitute(self._names(i, term, bit))
            yield f"local fits{i}, on{i}\ndo\n{ask[0]}\n{ask[1]}\nend"
        if writes:
            yield "if cost > 0 or lease ~= NO_LEASE then"
            yield "if not refused then"
            yield from (self._fill(i, term, "record") for i, term in self.shape.asked)
            yield "end"
            yield from self._usage("refused and 0 or 1", "refused and 1 or 0", "refused and 0 or cost")
            yield from self._writing("not refused")
            yield "end"
        yield self._reply()

    def settling(self) -> Iterator[str]:
        """The parts of settle."""
        witnesses = "".join(f", witness{i}" for i, _ in self.shape.asked)
        yield f"local policy = ARGV[1]\nlocal delta{witnesses} = unpack('<d{'d' * len(self.shape.asked)}', ARGV[2])"
        yield from self._opening()
        yield "local missed, in_flight = '', 0"
        for i, term in self.shape.asked:
            if term.by_cost and term.spec != "Cap":
                yield f"if witness{i} ~= 0 then\n{self._fill(i, term, 'read', 'settle')}\nend"
        yield from self._usage("0", "0", "delta")
        yield from self._writing("true")
        yield "return pack('<Bd', 1, now)"

    def _opening(self) -> Iterator[str]:
        """Compares stamps and validity, and reads every subject."""
        if self.shape.has_stamps:
            yield _source("stamps")
        elif self.shape.counts_usage:
            yield "local tenant = call('GET', KEYS[2])"
        yield (
            f"local valid_from, valid_until, hour_offset, lease_us = unpack('<dddd', policy, {STAMPS_END + 1})\n"
            "if now < valid_from or now >= valid_until then return pack('<Bd', 3, now) end\n"
            f"local lane, member = sub(policy, {HEADER_END - 3}, {HEADER_END}), sub(policy, {self.member_at})"
        )
        for subject in self.shape.subjects:
            yield self._reading(subject)

    def _reading(self, subject: Subject) -> str:
        j, (start, end), terms = int(subject), self.shape_at[subject], self.shape.of(subject)
        fixed_at = 9 + end - start + 1
        source = (
            "tenant"
            if subject is Subject.TENANT and self.shape.counts_usage
            else f"call('GET', KEYS[{self.key_of[subject]}])"
        )
        lines = [
            f"local kept{j} = {source} or NO_LEASE .. '\\{LAYOUT_VERSION}\\0'",
            f"local state{j}, after{j}, moved{j} = kept{j}, nil, false",
            f"if sub(state{j}, 9, {fixed_at - 1}) ~= sub(policy, {start}, {end}) then",
            f"  state{j}, after{j} = remap(state{j}, sub(policy, {start}, {end}))",
            "end",
        ]
        if terms:
            lines.append(f"local {', '.join(_fields(terms))} = unpack('<{_format(terms)}', state{j}, {fixed_at})")
        lines.append(f"local end{j} = {fixed_at + _fixed_bytes(terms)}")
        for i, term in terms:
            if term.has_tail:
                lines.append(
                    f"local tail{i} = sub(state{j}, end{j}, end{j} + 16 * n{i} - 1); end{j} = end{j} + 16 * n{i}"
                )
        return "\n".join(lines)

    def _usage(self, allowed: str, refused: str, cost: str) -> Iterator[str]:
        if self.shape.counts_usage:
            yield f"local usage = sub(state0, end0)\nlocal allowed_now, refused_now, cost_now = {allowed}, {refused}, {cost}"
            yield _source("usage")

    def _writing(self, recorded: str) -> Iterator[str]:
        for subject in self.shape.subjects:
            j, (start, end), terms = int(subject), self.shape_at[subject], self.shape.of(subject)
            ttl = f"(unpack('<d', policy, {self.ttl_at[subject]}))"
            fields = f" .. pack('<{_format(terms)}', {', '.join(_fields(terms))})" if terms else ""
            tails = "".join(f" .. tail{i}" for i, term in terms if term.has_tail)
            anew = f"sub(state{j}, 1, 8) .. sub(policy, {start}, {end}){fields}{tails}"
            changed = f"({recorded}) or moved{j}"
            if subject is Subject.TENANT and self.shape.counts_usage:
                yield f"local limits = ({changed}) and {anew} or sub(kept0, 1, (after0 or end0) - 1)"
                yield f"call('SET', KEYS[2], limits .. usage, 'PX', {ttl})"
            else:
                yield f"if {changed} then call('SET', KEYS[{self.key_of[subject]}], {anew}, 'PX', {ttl}) end"

    def _reply(self) -> str:
        values, formats, logs = [], "", ""
        for i, term in self.shape.asked:
            values += [f"n{i}"] if term.has_tail else [f"a{i}"]
            formats += "I" if term.has_tail else "d"
            if term.spec == "Quota":
                values.append(f"b{i}")
                formats += "d"
            if term.spec == "Log":
                logs += f" .. tail{i}"
        listed = "".join(f", {value}" for value in values)
        return f"return pack('<Bdd{formats}', refused and 0 or 1, now, mask{listed}){logs}"

    def _fill(self, i: int, term: TermShape, *sections: str) -> str:
        names = self._names(i, term, 0)
        return "\n".join(_sections(_SNIPPETS[term.spec])[section].substitute(names) for section in sections)

    def _names(self, i: int, term: TermShape, bit: int) -> dict[str, object]:
        return {
            "i": i, "j": int(term.subject), "at": self.params_at[i], "cost": "cost" if term.by_cost else "one",
            "id_at": self.id_at[i], "id_to": self.id_at[i] + 3, "bit": 2**bit,
        }  # fmt: skip


def _key_numbers(shape: Shape) -> dict[Subject, int]:
    first = 5 if shape.counts_usage else 1
    others = [s for s in shape.subjects if not (shape.counts_usage and s is Subject.TENANT)]
    return {Subject.TENANT: 2} | {subject: first + n for n, subject in enumerate(others)}


def _fields(terms: Iterable[tuple[int, TermShape]]) -> list[str]:
    return [name for i, term in terms for name in ([f"n{i}"] if term.has_tail else [f"a{i}", f"b{i}"])]


def _format(terms: Iterable[tuple[int, TermShape]]) -> str:
    return "".join("I" if term.has_tail else "dd" for _, term in terms)


def _fixed_bytes(terms: Iterable[tuple[int, TermShape]]) -> int:
    return sum(4 if term.has_tail else 16 for _, term in terms)
