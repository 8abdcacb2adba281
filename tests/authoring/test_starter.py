"""The beginning of a server of one's own: names that fit everywhere, and modules that work as they are written."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from trunkline import Config, ToolServer, open_hub
from trunkline.authoring.starter.names import check_name, name_tools, words_of
from trunkline.authoring.starter.project import TAKEN, Project, Template, installed_from
from trunkline.errors import ConfigError

TEMPLATES: list[Template] = ["basic", "http", "agent"]
AWKWARD = (
    "readData",
    "read-data",
    "read_data",
    "list",
    "class",
    "str",
    "__name__",
    "server",
    "work",
    "2fa",
    "a b",
    "größe",
)


def module_of(project: Project, folder: Path) -> Any:
    """The module of a project, imported from its file."""
    file = folder / f"{project.module}.py"
    file.write_text(project.files()[f"src/{project.module}.py"], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(project.module, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[project.module] = module  # types of functions are looked up there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[project.module]
    return module


@pytest.mark.parametrize("name", ["weather", "my-data-server", "Weather2", "a_b", "x" * 64])
def test_plain_names_are_taken(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../evil", "--output"),
        ("/tmp/evil", "--output"),
        ("..\\evil", "--output"),
        ("..", "begins with a letter"),
        ("", "begins with a letter"),
        ("my server", "'my-server' would do"),
        ("-rf", "'rf' would do"),
        ("3d", "'d' would do"),
        ("a__b", "'a-b' would do"),
        ("a.b", "'a-b' would do"),
        ("a\n", "'a' would do"),
        ("größe", "'gr-e' would do"),
        ("x" * 65, "would do"),
        ("class", "'class-server' would do"),
        ("match", "a word of Python's own"),
        ("json", "Python has a module json"),
        ("JSON", "Python has a module json"),
        ("trunkline", "needs the package trunkline"),
        ("mcp", "needs the package mcp"),
        ("python3", "would replace another"),
        ("pip", "would replace another"),
        ("tests", "means something else"),
        ("nul", "means something else"),
    ],
)
def test_names_that_lead_elsewhere_or_mean_something_are_refused_with_what_would_do(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_name(name)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("wanted", "tool", "function"),
    [
        ("readData", "readData", "readData"),
        ("read-data", "read-data", "read_data"),
        ("list", "list", "list_"),
        ("import", "import", "import_"),
        ("server", "server", "server_"),
        ("__name__", "__name__", "name"),
        ("__import__", "__import__", "import_"),
        ("___", "___", "tool"),
        ("2fa", "_2fa", "_2fa"),
        ("__2", "__2", "_2"),
        ("a b!", "a_b_", "a_b_"),
        ("a.b", "a_b", "a_b"),
    ],
)
def test_a_tool_gets_a_name_that_every_client_takes_and_a_function_that_hides_nothing(
    wanted: str, tool: str, function: str
) -> None:
    (named,) = name_tools([wanted], taken=TAKEN)

    assert (named.tool, named.function) == (tool, function)
    assert function.isidentifier()
    assert bool(named.change) == (not wanted == tool == function)
    assert not named.change or (repr(wanted) in named.change and function in named.change)


def test_functions_are_told_apart_and_tools_of_one_name_are_refused() -> None:
    named = name_tools(["a-b", "a_b", "a-b", "list", "list_"])

    assert [one.tool for one in named] == ["a-b", "a_b", "list", "list_"]
    assert len({one.function for one in named}) == 4
    with pytest.raises(ConfigError, match="'a b' and 'a_b' would both be called 'a_b'"):
        name_tools(["a b", "a_b"])


@pytest.mark.parametrize(
    ("name", "words"), [("readData", "Read data"), ("list_all-items", "List all items"), ("___", "___")]
)
def test_a_name_is_read_as_words(name: str, words: str) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize("template", TEMPLATES)
async def test_the_tools_of_every_template_answer_in_a_hub_however_they_are_called(
    template: Template, tmp_path: Path
) -> None:
    project = Project("starter-example", template, AWKWARD)
    server: ToolServer = module_of(project, tmp_path).server

    async with open_hub(Config(home=tmp_path)) as hub:
        await hub.mount(server)
        results = [await hub.call(one.tool, {project.call[1].partition("=")[0]: "hello"}) for one in project.tool_names]

    assert [tool.name for tool in server.get_tools()] == [one.tool for one in project.tool_names]
    assert len(results) == len(AWKWARD)
    assert not [result.text for result in results if result.is_error or "hello" not in result.text]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_name_that_a_module_uses_is_kept_from_its_tools(template: Template, tmp_path: Path) -> None:
    project = Project("starter-example", template)

    module: object = module_of(project, tmp_path)
    used = {name for name in vars(module) if not name.startswith("__")}

    assert used - {project.tool_names[0].function} <= set(TAKEN)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(
    "said", ['Says "hi" \\ and \'"""\' {x} %s', "two\nlines\tand\x00more\x7f", "Wörter, 語 🎩", "\ud800"]
)
def test_whatever_the_description_says_stays_a_description(template: Template, said: str, tmp_path: Path) -> None:
    project = Project("starter-example", template, description=said)

    files = project.files()
    server: ToolServer = module_of(project, tmp_path).server

    assert "\n" not in project.description
    assert server.config.description == project.description
    assert tomllib.loads(files["pyproject.toml"])["project"]["description"] == project.description
    assert project.description in files["README.md"]


def test_the_project_says_what_it_needs_and_which_command_it_brings() -> None:
    files = Project("My-Server").files()

    project = tomllib.loads(files["pyproject.toml"])["project"]
    assert project["scripts"] == {"My-Server": "my_server:main"}
    assert project["dependencies"][0].startswith("trunkline>=")
    assert set(files) == {"pyproject.toml", "README.md", ".gitignore", "src/my_server.py", "tests/test_server.py"}


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        ("", ""),
        ('{"url": "file:///home/me/my%20code", "dir_info": {"editable": true}}', "'/home/me/my code'"),
        ('{"url": "https://example.org/trunkline.whl", "archive_info": {}}', "https://example.org/trunkline.whl"),
        (
            '{"url": "https://example.org/t.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}',
            "git+https://example.org/t.git@abc",
        ),
    ],
)
def test_the_readme_installs_trunkline_from_where_it_came(record: str, wanted: str) -> None:
    readme = Project("weather", trunkline=installed_from(record)).files()["README.md"]

    assert f"pip install {wanted} -e .\n".replace("  ", " ") in readme


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match="no port"):
        Project("weather", "http", port=port)
