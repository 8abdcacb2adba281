"""Stands for `python ...` where a fork server has imported what is needed: `python -I -S fork_client.py SOCKET ...`.

A program's path or `-m` comes first. Its streams, folder, environment, signals and exit code are those of the program;
if it is killed, so is the program. Tests start it by the hundred, so it does without the modules that wrap these:
with them it would take twice the time.
"""

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
else:
    import _signal as signal
    import _socket as socket


def main() -> int:
    path, *words = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.connect(path)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: server.send(bytes([number])))
    about = marshal.dumps((words, posix.getcwd(), posix.environ))
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))
    server.sendmsg([len(about).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
    server.sendall(about)
    # The streams stay open here: as with any program they end with the process, and its exit code is there by then.
    status = int(server.recv(16) or signal.SIGKILL)
    return status >> 8 or (status and 128 + status)


if __name__ == "__main__":
    sys.exit(main())
