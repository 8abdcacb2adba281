"""What is built is what is installed: a wheel and an archive of the source, an image, and a unit of systemd."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.harness import TRUNKLINE
from trunkline.cli.main import parser
from trunkline.version import __version__

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel that was built from the archive, which was built from here."""
    folder = tmp_path_factory.mktemp("built")
    # In a process of its own: it changes the current folder.
    script = (
        "import os, sys, tarfile; from hatchling.build import build_sdist, build_wheel; out = sys.argv[1];"
        "name = build_sdist(out); tarfile.open(os.path.join(out, name)).extractall(out, filter='data');"
        "os.chdir(os.path.join(out, name.removesuffix('.tar.gz'))); build_wheel(out)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_the_wheel_says_what_it_is_and_brings_all_that_it_needs(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        about = Parser().parsestr(wheel.read(f"trunkline-{__version__}.dist-info/METADATA").decode())

    source = ROOT / "src"
    files = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file() and file.suffix != ".pyc"}
    assert files <= names
    assert f"trunkline-{__version__}.dist-info/licenses/LICENSE" in names
    assert (about["Version"], about["License-Expression"]) == (__version__, "Apache-2.0")
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert not [name for name in names if name.startswith(("tests", "bench"))]


@pytest.mark.slow
def test_the_archive_of_the_source_is_whole_and_small(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"LICENSE", "README.md", "pyproject.toml", "Dockerfile", "packaging/trunkline.service"} <= names
    assert not [name for name in names if name.startswith(("tests", "bench", ".tools", "requirements"))]


@pytest.mark.slow
def test_what_was_built_runs_where_nothing_of_the_source_is(built: Path, tmp_path: Path) -> None:
    python = tmp_path / "environment" / "bin" / "python"
    uv = str(Path(TRUNKLINE).with_name("uv"))
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, tmp_path / "environment"], check=True)
    wheel = next(built.glob("*.whl"))
    install = [uv, "pip", "install", "-q", "--offline", "--no-deps", "--no-index", "--python", python, wheel]
    subprocess.run(install, check=True)
    # What it depends on is taken from this environment: nothing is fetched.
    for folder in (tmp_path / "environment" / "lib").glob("python*/site-packages"):
        others = next(Path(sys.prefix, "lib").glob("python*/site-packages"))
        (folder / "others.pth").write_text(f"import sys; sys.path.append({str(others)!r})\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TRUNKLINE_HOME": str(tmp_path / "t")}

    def said(*words: str | Path) -> str:
        return subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert said(python.with_name("trunkline"), "--version") == f"trunkline {__version__}\n"
    assert said(python, "-m", "trunkline", "list", "--format", "json").startswith("{")
    assert str(tmp_path) in said(python, "-c", "import trunkline.hub as hub; print(hub.__file__)")


def test_the_image_runs_as_nobody_in_particular_and_starts_a_command_that_there_is() -> None:
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    last = dict(steps)

    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {name for name, _ in steps} <= known
    assert last["USER"].isdecimal()
    assert int(last["USER"]) > 0
    assert all(re.fullmatch(r"python:3\.\d+-slim( AS \w+)?", words) for name, words in steps if name == "FROM")
    assert "--require-hashes" in "".join(words for name, words in steps if name == "RUN")
    for words in (words for name, words in steps if name == "COPY" and "--from" not in words):
        assert all((ROOT / word).exists() for word in words.split()[:-1])
    assert last["ENTRYPOINT"] == '["trunkline"]'
    parser("up").parse_args(re.findall(r'"([^"]+)"', last["CMD"]))


def test_the_unit_starts_a_command_that_there_is_as_nobody_in_particular() -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging" / "trunkline.service")

    service = dict(unit["Service"])
    program, *words = service["ExecStart"].split()
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    assert (Path(program).name, service["DynamicUser"], service["NoNewPrivileges"]) == ("trunkline", "yes", "yes")
    assert service["ProtectSystem"] == "strict"
    assert service["Restart"] == "on-failure"
    parser("up").parse_args(words)


def test_the_licence_is_the_one_that_the_package_names() -> None:
    text = (ROOT / "LICENSE").read_text()

    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
