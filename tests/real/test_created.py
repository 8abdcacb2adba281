"""Servers of `trunkline create-server`, installed, tested and called: by the lines that it and its README print."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.harness import TRUNKLINE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
ANSWERS = {"basic": "hello: hello", "http": "hello: hello", "agent": "hello has 5 letters."}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def environment(home: Path) -> dict[str, str]:
    """A home in which nothing is configured, and pip and uv that fetch nothing."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRUNKLINE", "PYTHON", "PIP", "UV"))
    }
    return {
        **kept,
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "c"),
        "TRUNKLINE_HOME": str(home / "t"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it so: no isolation
        "PIP_NO_COMPILE": "1",  # what is imported is compiled then; the rest of Trunkline need not be
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_OFFLINE": "1",
        "UV_NO_CACHE": "1",
    }


def run(line: str, env: dict[str, str], folder: Path) -> str:
    """Run a line as a shell does; what it printed, on both sides."""
    done = subprocess.run(
        ["sh", "-c", line],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    return done.stdout


@contextmanager
def started(line: str, env: dict[str, str], folder: Path) -> Generator[None]:
    """A line in a terminal of its own, until it says that it listens."""
    process = subprocess.Popen(
        ["sh", "-c", f"exec {line}"], env=env, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "listens at" in said, said + process.stderr.read()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=15)
    assert process.returncode == 0


def create(name: str, template: str, env: dict[str, str], folder: Path, *more: str) -> str:
    """Create a server as a stranger does; what was said."""
    if template == "http":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            more = (*more, "--port", str(free.getsockname()[1]))
    return run(" ".join([TRUNKLINE, "create-server", name, "--template", template, *more]), env, folder)


def lend_packages(venv: Path) -> None:
    """Let an environment use what is installed for these tests, as if it had been fetched."""
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """What a README's line for an environment makes, made once: the three say the same."""
    folder = tmp_path_factory.mktemp("made")

    @cache
    def make(line: str) -> Path:
        run(line, environment(tmp_path_factory.mktemp("home")), folder)
        (venv,) = folder.iterdir()
        lend_packages(venv)
        return venv

    return make


@pytest.mark.parametrize("template", ["basic", "http", "agent"])
def test_every_line_of_the_next_steps_works_as_printed(template: str, env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()

    said = create("my-server", template, env, folder, "--tools", "first,second-one,list", "--output", "some/where")
    steps = [line.strip() for line in said.partition("Next steps")[2].splitlines() if line.startswith("  ")]
    if template == "http":
        tested, start, *use = steps
        with started(start, env, folder):
            told = [run(line, env, folder) for line in (tested, *use)]
    else:
        told = [run(line, env, folder) for line in steps]

    assert len(steps) == (4 if template == "http" else 3)
    assert "Ran 2 tests" in told[0]
    assert ANSWERS[template].replace("hello: ", "first: ") in told[-1]


@pytest.mark.parametrize("template", ["basic", "http", "agent"])
def test_installed_as_its_readme_says_it_passes_its_test_and_is_called_through_trunkline(
    template: str, env: dict[str, str], made: Callable[[str], Path], tmp_path: Path
) -> None:
    create("my-server", template, env, tmp_path)
    project = tmp_path / "my-server"
    readme = (project / "README.md").read_text()
    make, install, test, add, call = "".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)).splitlines()

    venv = made(make)
    (project / venv.name).symlink_to(venv)
    run(install, env, project)
    tested = run(test, env, project)
    run(add, env, project)
    if template == "http":
        (start,) = re.findall(r"^\$ (.*)$", readme, re.MULTILINE)
        with started(start, env, project):
            told = run(call, env, project)
    else:
        told = run(call, env, project)

    assert "Ran 2 tests" in tested
    assert ANSWERS[template] in told


def test_its_wheel_holds_the_server_and_works_where_it_is_installed(env: dict[str, str], tmp_path: Path) -> None:
    create("my-server", "basic", env, tmp_path, "--tools", "readData,writeData")

    run(f"{UV} build --quiet --wheel --no-build-isolation --python {sys.executable} my-server", env, tmp_path)
    (wheel,) = (tmp_path / "my-server" / "dist").glob("*.whl")
    run(f"{UV} venv --quiet --python {sys.executable} fresh", env, tmp_path)
    lend_packages(tmp_path / "fresh")
    installing = f"{UV} pip install --quiet --no-deps --no-build-isolation --python fresh/bin/python"
    run(f"{installing} {ROOT} {wheel}", env, tmp_path)
    (tmp_path / "my-server" / "src" / "my_server.py").unlink()  # what works from now on is what was installed
    run('fresh/bin/trunkline add mine "$PWD/fresh/bin/my-server"', env, tmp_path)
    told = run("fresh/bin/trunkline exec mine writeData text=hello", env, tmp_path)

    assert "my_server.py" in zipfile.ZipFile(wheel).namelist()
    assert "tests/test_server.py" not in zipfile.ZipFile(wheel).namelist()
    assert "writeData: hello" in told


def test_what_is_written_is_formatted_linted_and_typed(env: dict[str, str], tmp_path: Path) -> None:
    projects = [f"{template}-server" for template in ANSWERS]
    for template, project in zip(ANSWERS, projects, strict=True):
        create(project, template, env, tmp_path, "--tools", "first,second-one,list")
    typed = {"typeCheckingMode": "strict", "reportMissingTypeStubs": False, "include": projects}
    roots = [{"root": project, "extraPaths": [f"{project}/src"]} for project in projects]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**typed, "executionEnvironments": roots}))

    for project in projects:
        run("ruff format --check --isolated .", env, tmp_path / project)
        run("ruff check --isolated --select E,F,W,I,UP,B,C4,SIM,RUF .", env, tmp_path / project)
    checked = run(f"pyright --pythonpath {sys.executable} --stats", env, tmp_path)

    assert f"Found {2 * len(projects)} source files" in checked
