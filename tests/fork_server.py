"""Starts Python programs as forks of a process that has imported what they need: importing the SDK takes seconds.

`python fork_server.py serve SOCKET MODULE...` imports modules and waits. `python -I -S fork_server.py run SOCKET ...`
then stands for `python ...`, where a program's path or `-m` comes first: its streams, folder, environment, signals and
exit code are those of the program, and if it is killed, so is the program. Nothing but the standard library is needed,
so that environments without Trunkline can use it too.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any


def main() -> None:
    role, path, *rest = sys.argv[1:]
    if role == "run":
        sys.exit(run(path, rest))
    for module in rest:
        importlib.import_module(module)
    serve(path)
    run_program()


def run(path: str, words: list[str]) -> int:
    """Have a program run with the streams of this process; its exit code."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: server.sendall(bytes([number])))
        socket.send_fds(server, [b"+"], [0, 1, 2])
        about = {"argv": words, "cwd": os.getcwd(), "env": dict(os.environ)}
        server.sendall(json.dumps(about).encode() + b"\n")
        os.closerange(0, 3)  # whoever reads what the program writes has to hear when it stops
        code = os.waitstatus_to_exitcode(int(server.recv(16) or signal.SIGKILL))
    return code if code >= 0 else 128 - code


def serve(path: str) -> None:
    """Fork for everybody who connects, until standard input ends; returns in the forks alone."""
    running: dict[socket.socket, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
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
            streams = socket.recv_fds(caller, 1, 3)[1]
            about = json.loads(caller.makefile("rb").readline())
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


def become(about: dict[str, Any], streams: list[int]) -> None:
    """Take over the streams, the folder, the environment and the arguments of whoever asked."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(about["cwd"])
    os.environ.clear()
    os.environ.update(about["env"])
    sys.argv = about["argv"]


def run_program() -> None:
    import runpy

    if sys.argv[0] == "-m":
        del sys.argv[0]
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
