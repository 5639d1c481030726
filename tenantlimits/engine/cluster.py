"""A cluster: every command goes to the node that owns the slot of its keys, over that node's held connections.

All keys of a script carry the hash tag of one shard (see `keys`), so 256 slots at most are in use and a command's node
is known from its bytes. https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import redis
from redis.crc import key_slot
from redis.exceptions import AskError, InvalidResponse, MovedError, NoScriptError

from tenantlimits.engine.breaker import Breaker, Unwatched, Watch
from tenantlimits.engine.connections import Connections
from tenantlimits.engine.dialling import Dial
from tenantlimits.engine.keys import SHARDS
from tenantlimits.engine.resp import Reply, bulk, command

Address = tuple[str, int]
"""Host and port of a node."""
Conversation = Generator[tuple[Connections, list[bytes]], list[Reply] | redis.RedisError, list[Reply]]
"""Which node is asked what; it is sent the replies, or what went wrong."""

MOST_REDIRECTIONS = 4
_chance = random.Random()  # noqa: S311 - so that not all processes ask the same node
_CLUSTER_SLOTS = command([bulk("CLUSTER"), bulk("SLOTS")])
_ASKING = command([bulk("ASKING")])
_SLOT_OF_SHARD = tuple(key_slot(b"{s%02x}" % shard) for shard in range(SHARDS))


class ClusterConnections:
    """Held connections to all nodes, for threads and event loops. A node that fails is left alone by itself.

    `start` are nodes to ask for the others. `probe` makes the command that a node has to answer without an error
    before it is asked again, for the shard that it is given.
    """

    def __init__(
        self, dial: Dial, start: Sequence[Address], *, probe: Callable[[int], bytes], watch: Watch | None = None
    ) -> None:
        self._dial, self._start, self._probe_of = dial, tuple(start), probe
        self._watch = watch or Unwatched()
        self._lock = threading.Lock()
        self._nodes: dict[Address, Connections] = {}
        self._owners: list[Address] = []
        self.breaker = Breaker(self._discover, self._watch)

    def exchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """Send packed commands and read a reply for each; an error reply is returned, not raised.

        Where several nodes are asked and one of them fails, the others have been asked all the same.
        """
        conversation = self._conversation(commands)
        try:
            node, asked = next(conversation)
            while True:
                try:
                    answered: list[Reply] | redis.RedisError = node.exchange(asked)
                except redis.RedisError as error:
                    answered = error
                node, asked = conversation.send(answered)
        except StopIteration as done:
            replies: list[Reply] = done.value
            return replies

    def post(self, packed: bytes, again: Callable[[], object]) -> None:
        """As `exchange`, and `again` where the server does not know the script."""
        if isinstance(self.exchange([packed])[0], NoScriptError):
            again()

    async def aexchange(self, commands: Sequence[bytes]) -> list[Reply]:
        """The same from an event loop."""
        if not self._owners:
            await asyncio.to_thread(self._know_owners)
        conversation = self._conversation(commands)
        try:
            node, asked = next(conversation)
            while True:
                try:
                    answered: list[Reply] | redis.RedisError = await node.aexchange(asked)
                except redis.RedisError as error:
                    answered = error
                node, asked = conversation.send(answered)
        except StopIteration as done:
            replies: list[Reply] = done.value
            return replies

    def connect(self) -> Any:
        """A new connection of the caller's own, to one of the nodes: what is published to one is heard at all."""
        if not self._owners:
            self._know_owners()
        return self._node(_chance.choice(self._owners)).connect()

    def close(self) -> None:
        """Close the connections that no thread is using."""
        for node in self._nodes.values():
            node.close()

    # Routing

    def _conversation(self, commands: Sequence[bytes]) -> Conversation:
        if not self._owners:
            self._know_owners()
        shards = [_shard_of(one) for one in commands]
        replies: list[Reply] = [None] * len(commands)
        keyless = [number for number, shard in enumerate(shards) if shard is None]
        left = [number for number, shard in enumerate(shards) if shard is not None]
        for node, numbers in self._by_owner(left, shards):
            # What has no key (a script's text) goes along, to each node that is asked.
            yield from _ask(node, commands, [*keyless, *numbers], replies)
        for _ in range(MOST_REDIRECTIONS):
            left = [number for number in left if isinstance(replies[number], AskError)]
            for number in left:
                yield from self._redirected(commands, number, shards[number], replies)
        raise_if_lost(replies)
        return replies

    def _redirected(
        self, commands: Sequence[bytes], number: int, shard: int | None, replies: list[Reply]
    ) -> Conversation:
        """Ask where the reply says. What was answered with a redirection has not been carried out."""
        error = replies[number]
        address = (error.host, error.port)
        if isinstance(error, MovedError):
            assert shard is not None
            self._owners[shard] = address
            yield from _ask(self._node(address), commands, [number], replies)
        else:
            answered = yield self._node(address), [_ASKING, commands[number]]
            replies[number] = answered[-1] if isinstance(answered, list) else answered
        return replies

    def _by_owner(self, numbers: Iterable[int], shards: Sequence[int | None]) -> list[tuple[Connections, list[int]]]:
        batches: dict[Address, list[int]] = {}
        for number in numbers:
            shard = shards[number]
            assert shard is not None
            batches.setdefault(self._owners[shard], []).append(number)
        return [(self._node(address), batch) for address, batch in batches.items()]

    def _node(self, address: Address) -> Connections:
        node = self._nodes.get(address)
        if node is None:
            with self._lock:
                node = self._nodes.setdefault(address, self._connected(address))
        return node

    def _connected(self, address: Address) -> Connections:
        return Connections(
            self._dial.to(*address), recover=lambda node: self._recover(node, address), watch=self._watch
        )

    # Topology

    def _know_owners(self) -> None:
        if self.breaker.outage is not None:
            self.breaker.check()
        try:
            self._discover()
        except redis.RedisError as error:
            self.breaker.open(error)
            raise

    def _recover(self, node: Connections, address: Address) -> None:
        """Learn who owns the slots of a node that failed: that node again, which must take writes, or another one."""
        self._discover()
        mine = [shard for shard, owner in enumerate(self._owners) if owner == address]
        if mine:
            node.ask_once(self._probe_of(mine[0]))

    def _discover(self) -> None:
        """Ask a node for the owners of all slots; redis.RedisError where none of them knows."""
        known = [*{*self._nodes, *self._start}]
        _chance.shuffle(known)
        error: redis.RedisError = redis.ConnectionError("No node of the cluster is known.")
        for address in known:
            asked = Connections(self._dial.to(*address))
            try:
                self._owners = _owners(asked.ask_once(_CLUSTER_SLOTS), address)
            except redis.RedisError as failed:
                error = failed
            else:
                return
            finally:
                asked.close()
        raise error


def _ask(node: Connections, commands: Sequence[bytes], numbers: list[int], replies: list[Reply]) -> Conversation:
    answered = yield node, [commands[number] for number in numbers]
    for position, number in enumerate(numbers):
        replies[number] = answered[position] if isinstance(answered, list) else answered
    return replies


def raise_if_lost(replies: Sequence[Reply]) -> None:
    """Raise what kept a node from answering; an error that it answered is a reply like any other."""
    for reply in replies:
        if isinstance(reply, redis.RedisError) and not isinstance(reply, redis.ResponseError):
            raise reply


def _shard_of(packed: bytes) -> int | None:
    """The shard of a command's keys, from their hash tag; None where it has none."""
    at = packed.find(b"{s")
    return int(packed[at + 2 : at + 4], 16) if at >= 0 and packed[at + 4 : at + 5] == b"}" else None


def _owners(ranges: Sequence[Sequence[Reply]], asked: Address) -> list[Address]:
    """The owner of each shard, from the reply of CLUSTER SLOTS. A node that does not know its host is the one asked."""
    found: list[Address] = []
    for slot in _SLOT_OF_SHARD:
        try:
            owner = next((one[2] for one in ranges if one[0] <= slot <= one[1]), None)
            if owner is None:
                raise redis.exceptions.ClusterDownError(f"CLUSTERDOWN Slot {slot} is not served by any node.")
            found.append(((owner[0] or b"").decode() or asked[0], int(owner[1])))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise InvalidResponse(f"{ranges!r} is no answer to CLUSTER SLOTS.") from error
    return found
