"""`trunkline create-server`: begin a server of one's own, with a test that passes and lines that work as printed."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from trunkline.authoring.starter.names import module_name
from trunkline.authoring.starter.project import Project, installed_from
from trunkline.cli.console import agrees, can_ask, print_json, say
from trunkline.cli.main import Commands
from trunkline.cli.open import config_file
from trunkline.config.file import read_file, servers_of
from trunkline.config.reading import user_file
from trunkline.errors import ConfigError

_EXAMPLES = """examples:
  trunkline create-server weather
  trunkline create-server weather --tools get_forecast,list_cities --description "Knows the weather."
  trunkline create-server weather --template http --port 9000 --output ./servers
"""


def add_commands(commands: Commands) -> None:
    """Add the command."""
    create = commands.add(
        "create-server",
        commands.formatted,
        description="Write a small project: a server in Python, its tools, a test that passes, and how to use it.",
        examples=_EXAMPLES,
    )
    create.add_argument("name", help="of the server, its folder and its command")
    # Without choices: whoever asks for a template of another project is told which of ours to take.
    create.add_argument("--template", "-t", default="basic", metavar="basic|http|agent", help="(default: basic)")
    create.add_argument("--tools", action="append", metavar="A,B", help="names of its tools; may be repeated")
    create.add_argument("--description", "-d", default="", metavar="TEXT", help="what it is for")
    create.add_argument("--port", type=int, metavar="PORT", help="where one over HTTP listens (default: 8000)")
    create.add_argument("--output", "-o", default=".", metavar="DIR", help="make its folder in this one")
    create.add_argument("--force", action="store_true", help="write into a folder that is not empty; deletes nothing")
    create.add_argument("--yes", "-y", action="store_true", help="do not ask before files are overwritten")
    create.set_defaults(run=_create)


def _create(options: argparse.Namespace) -> int:
    project = _project(options)
    folder = Path(options.output).expanduser().resolve() / project.name
    _check_module(project.name, folder)
    files = project.files()
    if _is_there(folder, files):
        _tell(options, project, folder, list(files), already=True)
        return 0
    lost = _overwritten(folder, files, force=options.force)
    if lost and not options.yes:
        if not can_ask():
            raise ConfigError(f"{', '.join(lost)} in {folder} would be overwritten.", hint="Say --yes if you are sure.")
        if not agrees(f"Overwrite {', '.join(lost)} in {folder}?"):
            say("Nothing was written.")
            return 1
    for name, text in files.items():
        _write(folder / name, text)
    _tell(options, project, folder, list(files))
    return 0


def _project(options: argparse.Namespace) -> Project:
    names = [name.strip() for part in options.tools or () for name in part.split(",")]
    tools = tuple(name for name in names if name)
    if options.tools is not None and not tools:
        raise ConfigError("--tools names no tool.", hint="Write --tools a,b, or leave it out.")
    if options.port is not None and options.template in ("basic", "agent"):
        raise ConfigError(f"A server of template {options.template!r} has no port.", hint="Take --template http.")
    port = 8000 if options.port is None else options.port
    return Project(options.name, options.template, tools, options.description, port, _own_source())


def _own_source() -> str:
    # Takes longer to load than the rest of a command, so only this one loads it.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return installed_from(distribution("trunkline").read_text("direct_url.json") or "")
    except PackageNotFoundError:
        return ""


def _check_module(name: str, folder: Path) -> None:
    """No module that is installed here is hidden by the new one; an older state of the same project is."""
    module = module_name(name)
    found = importlib.util.find_spec(module)
    if found is not None and found.origin and not Path(found.origin).is_relative_to(folder):
        raise ConfigError(
            f"A server cannot be called {name!r}: there is a module {module} already.",
            hint=f"'{name}-server' would do.",
        )


def _is_there(folder: Path, files: Mapping[str, str]) -> bool:
    """Whether the project was made already, and is still as it was made."""
    try:
        return all((folder / name).read_text(encoding="utf-8") == text for name, text in files.items())
    except (OSError, UnicodeDecodeError):
        return False


def _overwritten(folder: Path, files: Mapping[str, str], *, force: bool) -> list[str]:
    """The files that would be lost; ConfigError when the folder cannot be written into."""
    try:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is there already, and is no folder.", hint="Choose another name, or --output.")
        if not force and folder.exists() and any(folder.iterdir()):
            raise ConfigError(
                f"{folder} is not empty.",
                hint="Choose another name, or write into it with --force: nothing is deleted.",
            )
        lost: list[str] = []
        for name, text in files.items():
            path = folder / name
            if path.parent.resolve() != folder.resolve() / Path(name).parent or path.is_dir():
                raise ConfigError(f"{path} cannot be written: something else is there.", hint="Move it away first.")
            if path.is_symlink() or (path.exists() and path.read_bytes() != text.encode()):
                lost.append(name)
        return lost
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {error.strerror or error}.") from error


def _write(path: Path, text: str) -> None:
    """Write a file; where a link is, the link is replaced, and not what it leads to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error


def _tell(
    options: argparse.Namespace, project: Project, folder: Path, files: list[str], *, already: bool = False
) -> None:
    changes = [tool.change for tool in project.tool_names if tool.change]
    steps = _next_steps(options, project, folder)
    if options.format == "json":
        print_json({
            "created": project.name,
            "already": already,
            "folder": str(folder),
            "files": files,
            "tools": [tool.tool for tool in project.tool_names],
            "changes": changes,
            "next": [line for _, lines in steps for line in lines],
        })  # fmt: skip
        return
    for change in changes:
        say(change)
    if options.format == "compact":
        print(folder)
        return
    did = f"{project.name!r} is there already, as it was made," if already else f"Created {project.name!r}"
    say(f"{did} in {folder}: {', '.join(files)}.")
    say("\nNext steps:")
    for about, lines in steps:
        say(f"\n{about}")
        for line in lines:
            say(f"  {line}")


def _next_steps(options: argparse.Namespace, project: Project, folder: Path) -> list[tuple[str, list[str]]]:
    """Lines for a shell in this folder, with what each is for; they need nothing that is not here already."""
    python, ourselves = shlex.quote(sys.executable), _ourselves()
    near = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    source, tests = shlex.quote(str(near / "src")), shlex.quote(str(near / "tests"))
    program = f"{python} {shlex.quote(str(folder / 'src' / f'{project.module}.py'))}"
    where = ["--config", shlex.quote(options.config)] if options.config else []
    known = _is_configured(options, project.name)
    add = [ourselves, "add", *where, *(["--force"] if known else []), project.name, project.url or program]
    return [
        ("Test it:", [f"PYTHONPATH={source} {python} -m unittest discover {tests}"]),
        *([("Start it in a terminal of its own; Ctrl-C ends it:", [program])] if project.url else []),
        (
            f"Add it to Trunkline{', in the place of the one of that name' if known else ''}, and call a tool:",
            [" ".join(add), " ".join([ourselves, "exec", *where, project.name, *project.call])],
        ),
        (f"Fill in its tools in {near / 'src' / project.module}.py; its README.md says how to give it to clients.", []),
    ]


def _is_configured(options: argparse.Namespace, name: str) -> bool:
    path = config_file(options) or user_file(os.environ)
    try:
        return name in servers_of(read_file(path), path)
    except ConfigError:
        return False  # `trunkline add` will say what is wrong with the file


def _ourselves() -> str:
    """This command, as a shell finds it."""
    script = Path(sys.executable).with_name("trunkline")
    found = shutil.which("trunkline")
    if found and Path(found).resolve() == script.resolve():
        return "trunkline"
    return shlex.quote(str(script)) if script.exists() else f"{shlex.quote(sys.executable)} -m trunkline"
