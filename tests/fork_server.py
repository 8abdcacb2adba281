"""Starts Python programs as forks of a process that has imported what they need: importing the SDK takes a second.

`python fork_server.py SOCKET MODULE...` imports modules and waits for `fork_client.py`. Nothing but the standard
library is needed, so that environments without Trunkline can use it too.
"""

from __future__ import annotations

import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys


def main() -> None:
    path, *modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    serve(path)
    run_program()


def serve(path: str) -> None:
    """Fork for everybody who connects, until standard input ends; returns in the forks alone."""
    running: dict[socket.socket, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, noted)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("READY", flush=True)
    while True:
        ready = select.select([0, woken, listener, *running], [], [])[0]
        if 0 in ready:
            for pid in running.values():
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        if woken in ready:
            os.read(woken, 4096)
        for caller in [one for one in ready if one in running]:
            # Nobody else reaps: the process is there, if only as a zombie.
            os.kill(running[caller], ord(caller.recv(1) or bytes([signal.SIGKILL])))
        reap(running)
        if listener in ready:
            caller = listener.accept()[0]
            size, streams, _, _ = socket.recv_fds(caller, 4, 3)
            about = caller.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for inherited in (listener, caller, *running):
                    inherited.close()
                os.close(woken)
                os.close(wake)
                become(about, streams)
                return
            running[caller] = pid
            for stream in streams:
                os.close(stream)


def noted(*_: object) -> None:
    """A program ended; the wakeup descriptor says so."""


def reap(running: dict[socket.socket, int]) -> None:
    """Tell those whose program ended how it did."""
    for caller, pid in list(running.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del running[caller]
            try:
                caller.sendall(str(status).encode())
            except OSError:
                pass  # it was killed, and the program for it
            caller.close()


def become(about: bytes, streams: list[int]) -> None:
    """Take over the streams, the arguments, the folder and the environment of whoever asked."""
    sys.argv, folder, environment = marshal.loads(about)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environb.update(environment)


def run_program() -> None:
    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
