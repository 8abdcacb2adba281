"""The parent of every server process: a small program that outlives a killed gateway just long enough to end them all.

It is run by path, with nothing but the standard library, and imports nothing of ours. The gateway talks to it over a
socket: one JSON object a line, with the child's three standard streams beside each `spawn`. When the socket closes,
for whatever reason, every process below the warden ends.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # Importing `typing` for this one name would take a tenth of the start.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Prctl = Callable[..., Any]

MARK = "TRUNKLINE_PROCESS"
"""Variable by which a server's descendants are known even after they left its process group."""

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LINUX = sys.platform == "linux"


def main() -> None:
    """Serve spawn and signal requests until the gateway is gone, then end what is left."""
    link = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(link.fileno(), False)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    prctl: Prctl = ctypes.CDLL(None).prctl if LINUX else _no_prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, _noted)
    signal.set_wakeup_fd(wake)
    try:
        Warden(link, prctl).run(woken)
    finally:
        end_everything()


def _no_prctl(*_: int) -> int:
    return 0


def _noted(*_: object) -> None:
    """A child ended; the wakeup descriptor says so."""


class Warden:
    """The servers that run now, by the gateway's number and by process id."""

    def __init__(self, link: socket.socket, prctl: Prctl) -> None:
        self.link, self.prctl = link, prctl
        self.numbers: dict[int, int] = {}
        self.pids: dict[int, int] = {}
        self.buffer = b""
        self.streams: list[list[int]] = []
        """The streams of each `spawn` that is still being read; those that there was no room for are missing."""

    def run(self, woken: int) -> None:
        while True:
            ready, _, _ = select.select([self.link, woken], [], [])
            if woken in ready:
                while True:
                    try:
                        if not os.read(woken, 4096):
                            break
                    except BlockingIOError:
                        break
            self.reap()
            if self.link in ready and not self.receive():
                return

    def receive(self) -> bool:
        try:
            data, streams, flags, _ = socket.recv_fds(self.link, 65536, 3)
        except OSError:
            return False
        if not data:
            return False
        self.buffer += data
        if streams or flags & socket.MSG_CTRUNC:
            self.streams.append(streams)
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["op"] == "spawn":
                self.spawn(request, self.streams.pop(0))
            else:
                self.signal(request)
        return True

    def spawn(self, request: dict[str, Any], streams: list[int]) -> None:
        """Start one server; whatever prevents that is this server's failure alone."""
        number = request["number"]
        try:
            pid, reason = self.fork(request, streams)
        except OSError as error:
            pid, reason = 0, error.strerror or str(error)
        finally:
            for stream in streams:
                os.close(stream)
        if reason:
            self.tell(number=number, failed=reason)
            return
        self.numbers[pid] = number
        self.pids[number] = pid
        self.tell(number=number, pid=pid)

    def fork(self, request: dict[str, Any], streams: list[int]) -> tuple[int, str]:
        """The new process, or why it did not become the server."""
        if len(streams) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        failed, fail = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                become(request, streams, fail, self.prctl)
        except OSError:
            os.close(failed)
            raise
        finally:
            os.close(fail)
        reason = b""
        with open(failed, "rb", buffering=0) as told:
            while piece := told.read(4096):
                reason += piece
        if reason:
            os.waitpid(pid, 0)
        return pid, reason.decode(errors="replace")

    def signal(self, request: dict[str, Any]) -> None:
        pid = self.pids.get(request["number"])
        if pid is not None:
            kill_group(pid, request["signal"])

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self.numbers.pop(pid, None)
            if number is None:
                continue
            del self.pids[number]
            # Whoever it started ends with it, in its process group or out of it.
            kill_group(pid, signal.SIGKILL)
            for left in marked(f"{MARK}={number}"):
                kill(left, signal.SIGKILL)
            self.tell(number=number, exit=os.waitstatus_to_exitcode(status))

    def tell(self, **event: object) -> None:
        try:
            self.link.sendall(json.dumps(event).encode() + b"\n")
        except OSError:
            pass


def become(request: dict[str, Any], streams: list[int], fail: int, prctl: Prctl) -> None:
    """Turn the forked child into the server; never returns."""
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for received in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(received, signal.SIG_DFL)
        if request["cwd"]:
            os.chdir(request["cwd"])
        # First away from the low numbers, so that no stream overwrites another.
        high = [os.dup(stream) for stream in streams]
        for target, stream in enumerate(high):
            os.dup2(stream, target)
        os.set_inheritable(fail, False)
        limit = min(os.sysconf("SC_OPEN_MAX"), 65536)
        os.closerange(3, fail)
        os.closerange(fail + 1, limit)
        env = dict(request["env"])
        env[MARK] = str(request["number"])
        os.execvpe(request["argv"][0], request["argv"], env)
    except OSError as error:
        os.write(fail, (error.strerror or str(error)).encode())
    except ValueError as error:
        os.write(fail, str(error).encode(errors="replace"))
    finally:
        os._exit(127)


def kill_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except OSError:
        pass


def kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def descendants(pid: int) -> list[int]:
    """Every live process below one; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for other in numbered("/proc"):
        try:
            fields = stat_of(other)
        except OSError:
            continue
        if fields[0] != b"Z":
            children.setdefault(int(fields[1]), []).append(other)
    found: list[int] = []
    ahead = [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def stat_of(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name, in brackets, may hold anything; what follows the last bracket is plain.
        return file.read().rpartition(b")")[2].split()


def marked(mark: str) -> list[int]:
    """The descendants that carry a server's mark in their environment."""
    found: list[int] = []
    for pid in descendants(os.getpid()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            continue
    return found


def numbered(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]
    except OSError:
        return []


def end_everything() -> None:
    """SIGTERM to all, then SIGKILL until nobody is left."""
    polite_until = time.monotonic() + 0.5
    for pid in descendants(os.getpid()):
        kill(pid, signal.SIGTERM)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if time.monotonic() > polite_until:
            for pid in descendants(os.getpid()):
                kill(pid, signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
