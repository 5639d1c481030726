"""python -m project.watched COMMAND...: run it, and end it when our parent is gone or asks us to.

The parent holds the other end of our stdin, which closes however the parent ends: kill -9 included.
"""

import os
import signal
import subprocess
import sys
import threading


def main(command: list[str]) -> int:
    """The exit code of the command."""
    # Our parent may have given us a listening socket, which is for the command.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False)  # noqa: S603 - what our parent says
    signal.signal(signal.SIGTERM, lambda *_: _end(child))
    threading.Thread(target=_end_with_parent, args=(child,), daemon=True).start()
    return child.wait()


def _end_with_parent(child: "subprocess.Popen[bytes]") -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.terminate()
    child.send_signal(signal.SIGCONT)  # one that was stopped would not hear it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
