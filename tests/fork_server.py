"""Starts Python programs as forks of a process that has imported what they need: importing the SDK takes a second.

`python fork_server.py SOCKET MODULE...` imports modules and waits for `fork_client.py`. Nothing but the standard
library is needed, so that environments without Trunkline can use it too.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import ModuleType


def main() -> None:
    path, *modules = sys.argv[1:]
    for module in modules:
        importlib.import_module(module)
    # What is looked through for garbage is written to, and then a fork has a copy of its own of all that was imported.
    gc.collect()
    gc.freeze()
    serve(path)
    code = ended()
    # As Python does at an end: threads that wait for work are told, and those that are no daemons waited for.
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more, or the program closed it
            stream.flush()
    # Taking all modules apart first takes longer than most programs do.
    os._exit(code)


def ended() -> int:
    """Run a program; its exit code, as Python has it."""
    try:
        run_program()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType] - there is one
        return 128 + signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType] - the same
        return 1
    return 0


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
        program = sys.modules["__main__"] = ModuleType("__main__")
        program.__file__ = sys.argv[0]
        # Python keeps a module compiled but not a program; this keeps it like a module.
        code = SourceFileLoader("__main__", sys.argv[0]).get_code("__main__")
        assert code is not None
        exec(code, vars(program))


if __name__ == "__main__":
    main()
