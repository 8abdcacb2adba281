"""A person at a terminal: types answers to what a command asks, and sees what is shown."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

from tests.harness import TRUNKLINE


def at_terminal(*words: str, env: dict[str, str], answers: dict[str, str]) -> tuple[int, str]:
    """Run a command; whenever a text of `answers` is shown, its line is typed. The exit code, and the whole screen."""
    near, far = pty.openpty()
    process = subprocess.Popen(
        [TRUNKLINE, *words], env=env, cwd=env["HOME"], stdin=far, stdout=far, stderr=far, start_new_session=True
    )
    os.close(far)
    screen, typed, until = "", 0, time.monotonic() + 30
    try:
        while time.monotonic() < until:
            if not select.select([near], [], [], 0.5)[0]:
                continue
            try:
                screen += os.read(near, 4096).decode()
            except OSError:
                break  # the command ended, and with it the terminal
            found = next((text for text in answers if text in screen[typed:]), "")
            if found:
                typed = len(screen)
                os.write(near, (answers[found] + "\n").encode())
        return process.wait(10), screen.replace("\r\n", "\n")
    finally:
        process.kill()
        process.wait()
        os.close(near)
