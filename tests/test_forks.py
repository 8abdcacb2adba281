"""A program that is a fork ends as it would by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import plain_command

PROGRAMS = {
    "at its end": "print('said', end='')",
    "with a code": "import sys; print('said'); sys.exit(3)",
    "with a code that is too large": "import sys; sys.exit(259)",
    "with words": "import sys; sys.exit('no')",
    "without a code": "raise SystemExit",
    "by an error": "print('said'); 1 / 0",
    "by Ctrl-C": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "after its threads": "import threading; threading.Timer(0.05, lambda: print('said')).start()",
    "without waiting for other threads": (
        "import threading, time; threading.Thread(target=time.sleep, args=[60], daemon=True).start()"
    ),
    "after an executor's threads": (
        "from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(); "
        "print(pool.submit(len, 'said').result())"
    ),
    "after what it registered": "import atexit; atexit.register(print, 'said')",
    "with its output closed": "import sys; sys.stdout.close()",
}


@pytest.mark.parametrize("how", PROGRAMS)
def test_it_ends(how: str, tmp_path: Path) -> None:
    (program := tmp_path / "program.py").write_text(PROGRAMS[how])

    itself, fork = (
        subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        for command in ([sys.executable, "-S", str(program)], plain_command(str(program)))
    )

    code = itself.returncode if itself.returncode >= 0 else 128 - itself.returncode  # as a shell says it
    assert (fork.returncode, fork.stdout) == (code, itself.stdout)
    assert fork.stderr.splitlines()[-1:] == itself.stderr.splitlines()[-1:]
