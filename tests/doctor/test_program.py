"""A server's program is not there, cannot run, or does not become a server."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.scene import GOOD, Machine, good_script
from tests.harness import STDIO_SERVER, faulty

QUICK = 2.5


@pytest.mark.parametrize("runtime", ["npx", "uvx", "docker", "node", "python"])
def test_a_missing_runtime_comes_with_how_to_get_it(
    runtime: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.setattr("trunkline.doctor.program._PLACES", ())  # where this machine may have one after all
    machine.configure({"command": runtime, "args": ["thing"]})

    told = machine.doctor()

    assert told.codes == ["TL201"]
    assert "nstall" in told.advice, told.advice
    program = machine.server("real")
    program.rename(machine.bin / runtime)
    assert machine.is_well()


def test_a_runtime_outside_the_path_is_found(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.folder / "nowhere"))
    place = machine.folder / ".local/bin/uvx"
    place.parent.mkdir(parents=True)
    machine.server("uvx").rename(place)
    machine.configure({"command": "uvx"})

    told = machine.doctor()

    assert told.codes == ["TL201"]
    assert f'command = "{place}"' in told.advice
    machine.configure({"command": str(place)})
    assert machine.is_well()


def test_a_command_that_nobody_knows_is_not_found(machine: Machine) -> None:
    machine.configure({"command": "npxx"})

    told = machine.doctor()

    assert told.codes == ["TL202"]
    assert "Did you mean 'npx'?" in told.advice
    machine.server("npxx")
    assert machine.is_well()


def test_a_command_with_its_arguments_is_taken_apart(machine: Machine) -> None:
    machine.server("tool")
    machine.configure({"command": "tool --era legacy", "args": ["--name", "x"]})

    told = machine.doctor()

    assert told.codes == ["TL202"]
    assert 'command = "tool" and args = ["--era", "legacy", "--name", "x"]' in told.advice
    machine.configure({"command": "tool", "args": ["--era", "legacy", "--name", "x"]})
    assert machine.is_well()


def test_a_script_that_is_elsewhere_is_found_there(machine: Machine) -> None:
    inner = machine.folder / "inner"
    inner.mkdir()
    (machine.folder / "server.py").write_text(STDIO_SERVER.read_text())
    machine.configure({"command": sys.executable, "args": ["-S", "server.py"], "cwd": str(inner)})

    told = machine.doctor()

    assert told.codes == ["TL203"]
    assert f'cwd = "{machine.folder}"' in told.advice
    machine.configure({"command": sys.executable, "args": ["-S", "server.py"], "cwd": str(machine.folder)})
    assert machine.is_well()


@pytest.mark.parametrize(
    ("spec", "advice"),
    [
        ({"command": "./missing"}, "in full"),
        ({"command": "~/server"}, 'command = "{home}/server"'),
        ({"command": sys.executable, "args": ["~/server.py"]}, 'Write "{home}/server.py"'),
        ({"command": sys.executable, "args": ["/no/such/server.py"]}, "full path"),
        ({"command": sys.executable, "cwd": "/no/such/folder"}, "`cwd`"),
        ({"command": "./bin"}, "the program that is in it"),
    ],
)
def test_a_path_that_leads_nowhere_is_named(spec: dict[str, Any], advice: str, machine: Machine) -> None:
    machine.configure(spec)

    told = machine.doctor()

    assert told.codes == ["TL203"]
    assert advice.format(home=machine.folder) in told.advice


def test_a_program_without_the_right_to_run_gets_the_command_that_gives_it(machine: Machine) -> None:
    program = machine.server("tool", mode=0o644)
    machine.configure({"command": str(program)})

    told = machine.doctor()

    assert told.codes == ["TL204"]
    assert told.finding("TL204")["command"] == f"chmod +x {program}"
    program.chmod(0o755)
    assert machine.is_well()


def test_a_script_without_a_first_line_is_no_program(machine: Machine) -> None:
    program = machine.server("tool")
    program.write_text(good_script())
    machine.configure({"command": str(program)})

    assert machine.doctor().codes == ["TL204"]
    machine.server("tool")
    assert machine.is_well()


def test_a_first_line_that_names_a_missing_interpreter_is_a_missing_runtime(machine: Machine) -> None:
    program = machine.program("tool", "")
    program.write_text("#!/no/such/interpreter\n")
    machine.configure({"command": str(program)})

    told = machine.doctor()

    assert told.codes == ["TL201"]
    assert "/no/such/interpreter" in told.finding("TL201")["seen"]


LAST_WORDS = [
    ("npx", "npm error code E404\nnpm error 404 Not Found - GET https://index.example/nope\n", 1, "TL205"),
    ("npx", "npm ERR! code ETARGET\nnpm ERR! notarget No matching version found for x@9\n", 1, "TL205"),
    (
        "uvx",
        "  × No solution found when resolving tool dependencies:\n"
        "  Because nope was not found in the package registry and you require nope, we can conclude\n",
        1,
        "TL205",
    ),
    ("docker", "docker: Error response from daemon: pull access denied for nope\n", 125, "TL205"),
    ("npx", "npm warn EBADENGINE Unsupported engine {\nSyntaxError: Unexpected token\n", 1, "TL210"),
    (
        "uvx",
        "  × No solution found when resolving tool dependencies:\n"
        "  Because the current Python version (3.9.1) does not satisfy Python>=3.10\n",
        1,
        "TL210",
    ),
    ("node", "ReferenceError: fetch is not defined\n    at file:///x.js:1\n", 1, "TL210"),
    ("python3", "Traceback (most recent call last):\nModuleNotFoundError: No module named 'mcp'\n", 1, "TL211"),
    ("node", "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x\n", 1, "TL211"),
    ("docker", "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.\n", 1, "TL212"),
    ("npx", "npm error code ENOTFOUND\nnpm error network request failed\n", 1, "TL213"),
    ("uvx", "error: Failed to fetch: `https://index.example/simple/x/`\n  Caused by: dns error\n", 2, "TL213"),
    ("python3", "python3: can't open file '/x/y.py': [Errno 2] No such file or directory\n", 2, "TL203"),
    ("tool", "Error: the API key is not valid\n", 4, "TL206"),
]  # fmt: skip


@pytest.mark.parametrize("words", ["getaddrinfo ENOTFOUND api.example", "GET https://api.example/x - 404"])
def test_a_server_that_fails_by_its_own_service_is_not_taken_for_a_missing_package(
    words: str, machine: Machine
) -> None:
    machine.program("npx", f"echo 'Error: {words}' >&2; exit 1")
    machine.configure({"command": "npx", "args": ["thing"]})

    assert machine.doctor().codes == ["TL206"]


@pytest.mark.parametrize(("runner", "words", "status", "code"), LAST_WORDS, ids=[f"{w[0]}-{w[3]}" for w in LAST_WORDS])
def test_last_words_are_understood(runner: str, words: str, status: int, code: str, machine: Machine) -> None:
    (machine.folder / "words").write_text(words)
    # With the right package it works, as it would after the advice.
    script = f'if [ "$1" = right ]; then {good_script()}; fi\ncat "{machine.folder}/words" >&2\nexit {status}'
    machine.program(runner, script)
    machine.configure({"command": runner, "args": ["wrong"]})

    told = machine.doctor()

    assert told.codes == [code]
    assert "It said: " in told.findings[0]["seen"]
    machine.configure({"command": runner, "args": ["right"]})
    assert machine.is_well()


def test_a_program_that_ends_at_once_is_shown_with_its_end_and_its_last_words(machine: Machine) -> None:
    machine.configure(faulty("--start", "exit"))

    told = machine.doctor()

    assert told.codes == ["TL206"]
    assert "exited with code 3" in told.finding("TL206")["seen"]
    assert "cannot start, as asked" in told.finding("TL206")["seen"]
    machine.configure(GOOD)
    assert machine.is_well()


def test_a_program_that_ends_without_a_word_says_so(machine: Machine) -> None:
    machine.program("tool", "exit 0")
    machine.configure({"command": "tool"})

    told = machine.doctor()

    assert told.codes == ["TL206"]
    assert "It said nothing." in told.advice


def test_a_crash_without_words_is_not_said_to_say_anything(machine: Machine) -> None:
    machine.program("tool", "exit 7")
    machine.configure({"command": "tool"})

    told = machine.doctor()

    assert told.codes == ["TL206"]
    assert told.advice == "It said nothing. Run it by hand and see."


def test_what_npm_says_whatever_happens_is_not_what_was_wrong(machine: Machine) -> None:
    machine.program("npx", 'echo "npm warn Unknown user config" >&2; echo "npm notice New version!" >&2; exit 1')
    machine.configure({"command": "npx", "args": ["-y", "package"]})

    told = machine.doctor()

    assert told.codes == ["TL206"]
    assert "npm" not in told.findings[0]["seen"]
    assert "~/.npm/_logs" in told.advice


PYTHON = 'Traceback (most recent call last):\n  File "/x.py", line 3, in <module>\n    os.environ[name]\n'
NODE = "file:///x/index.js:12\n    throw new Error('API_TOKEN is not set');\n          ^\n\n"
STACK = "\n    at file:///x/index.js:12:9\n    at ModuleJob.run (node:internal/modules:1)\n\nNode.js v22.1.0\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (f"{PYTHON}KeyError: 'GITHUB_TOKEN'\n", "GITHUB_TOKEN"),
        (f"{NODE}Error: API_TOKEN is not set{STACK}", "API_TOKEN"),
        ("Error: SLACK_BOT_TOKEN environment variable is required\n", "SLACK_BOT_TOKEN"),
        ("Please set the BRAVE_API_KEY environment variable.\n", "BRAVE_API_KEY"),
        ("Missing required environment variables: DB_HOST, DB_PORT\n", "DB_HOST"),
        ("fatal: no `ACCOUNT_ID` found in the environment\n", "ACCOUNT_ID"),
    ],
)
def test_a_variable_that_is_missing_is_named_with_how_to_set_it(words: str, name: str, machine: Machine) -> None:
    (machine.folder / "words").write_text(words)
    machine.program("tool", f'if [ -n "${name}" ]; then {good_script()}; fi\ncat "{machine.folder}/words" >&2\nexit 1')
    machine.configure({"command": "tool"})

    told = machine.doctor()

    assert told.codes == ["TL214"]
    assert f"wants the variable {name}" in told.findings[0]["seen"]
    assert f"env = {{ {name} = " in told.advice
    assert (f"trunkline secret set it.{name}" == told.findings[0].get("command", "")) is name.endswith(("TOKEN", "KEY"))
    machine.configure({"command": "tool", "env": {name: "x1"}})
    assert machine.is_well()


def test_the_error_of_a_node_program_is_shown_and_not_what_threw_it(machine: Machine) -> None:
    words = f"{NODE}TypeError [ERR_X]: The port must be a number{STACK}  [cause]: Error: it was 'abc'\n"
    (machine.folder / "words").write_text(words)
    machine.program("tool", f'cat "{machine.folder}/words" >&2\nexit 1')
    machine.configure({"command": "tool", "env": {"API_TOKEN": "something"}})

    seen = machine.doctor().finding("TL206")["seen"]

    assert seen.endswith("It said: TypeError [ERR_X]: The port must be a number / Error: it was 'abc'")


def test_a_timeout_that_is_given_counts_more_than_what_is_configured(machine: Machine) -> None:
    machine.program("tool", f"sleep 1\n{good_script()}")
    machine.configure({"command": "tool", "start_timeout": 0.2})

    assert machine.doctor(timeout=20).codes == []


def test_a_list_that_never_comes_is_waited_for_as_long_as_was_said(machine: Machine) -> None:
    machine.configure(faulty("--list", "hang", timeout=60))

    told = machine.doctor(timeout=QUICK)

    assert told.codes[0].startswith("TL4")


def test_what_is_secret_is_not_in_the_report(machine: Machine) -> None:
    leak = (
        'echo "key $KEY, plain $PLAIN, header Bearer abcdef123456, at https://u:pw123456@h/x?token=q9q9q9" >&2; '
        "echo $2 >&2; exit 1"
    )
    machine.program("tool", leak)
    env = {"KEY": "hunter2-hunter2", "PLAIN": "opaque-value"}
    machine.configure({"command": "tool", "args": ["--api-key", "argu-ment-secret"], "env": env})

    told = machine.doctor()

    assert told.codes == ["TL206"]
    assert "***" in told.finding("TL206")["seen"]
    for secret in ("hunter2", "abcdef123456", "pw123456", "q9q9q9", "argu-ment-secret", "opaque-value"):
        assert secret not in told.text


@pytest.mark.parametrize(
    ("command", "code", "seen"),
    [
        ("tool --token abc-secret", "TL202", "in one text"),
        ("nothing --token abc-secret", "TL202", "in the PATH"),
        ("./none --token abc-secret", "TL203", "/none --token ***"),
    ],
)
def test_a_secret_in_a_command_is_not_in_the_report_either(
    command: str, code: str, seen: str, machine: Machine
) -> None:
    machine.server("tool")
    machine.configure({"command": command, "args": ["--password", "xyz-secret", "--key", ""]})

    told = machine.doctor()

    assert told.codes[0] == code
    assert seen in told.finding(code)["seen"]
    assert "abc-secret" not in told.text
    assert "xyz-secret" not in told.text


def test_what_moves_the_cursor_is_not_printed(machine: Machine) -> None:
    machine.program("tool", "printf '\\033[2J\\033]0;x\\007bad' >&2; exit 1")
    machine.configure({"command": "tool"})

    assert "\x1b" not in machine.doctor().finding("TL206")["seen"]


def test_a_banner_on_standard_output_is_a_warning_while_the_server_works(machine: Machine) -> None:
    machine.program("tool", f"echo 'Welcome to the tool'; {good_script()}")
    machine.configure({"command": "tool"})

    told = machine.doctor()

    assert told.codes == ["TL207"]
    assert told.finding("TL207")["severity"] == "warning"
    assert "Welcome to the tool" in told.finding("TL207")["seen"]
    machine.program("tool", f"echo 'Welcome to the tool' >&2; {good_script()}")
    assert machine.is_well()


def test_log_lines_in_json_on_standard_output_are_not_mcp_either(machine: Machine) -> None:
    machine.program("tool", f"""echo '{{"level": "info", "text": "ready"}}'; {good_script()}""")
    machine.configure({"command": "tool"})

    assert machine.doctor().codes == ["TL207"]


def test_a_program_that_only_prints_is_no_server(machine: Machine) -> None:
    machine.program("tool", "echo 'Usage: tool FILE'; exec sleep 60")
    machine.configure({"command": "tool"})

    told = machine.doctor(timeout=QUICK)

    assert told.codes == ["TL207"]
    assert told.finding("TL207")["severity"] == "error"


def test_a_program_that_says_nothing_hangs(machine: Machine) -> None:
    machine.configure(faulty("--start", "hang"))

    told = machine.doctor(timeout=QUICK)

    assert told.codes == ["TL208"]
    assert f"within {QUICK:g} s" in told.finding("TL208")["seen"]
    machine.configure(GOOD)
    assert machine.is_well()


def test_a_program_that_waits_for_http_wants_a_url(machine: Machine) -> None:
    machine.program("tool", "echo 'INFO: Uvicorn running on http://127.0.0.1:8000' >&2; exec sleep 60")
    machine.configure({"command": "tool"})

    told = machine.doctor(timeout=QUICK)

    assert told.codes == ["TL208"]
    assert "`url`" in told.advice


def test_a_server_that_fetches_something_of_its_own_hangs(machine: Machine) -> None:
    machine.program("tool", "echo 'Fetching the news...' >&2; exec sleep 60")
    machine.configure({"command": "tool"})

    assert machine.doctor(timeout=QUICK).codes == ["TL208"]


def test_a_download_is_told_from_a_hang_by_its_words(machine: Machine) -> None:
    machine.program("uvx", "echo 'Downloading numpy (16.2MiB)' >&2; exec sleep 60")
    machine.configure({"command": "uvx", "args": ["big"]})

    told = machine.doctor(timeout=QUICK)

    assert told.codes == ["TL209"]
    assert "--timeout" in told.advice
    assert told.finding("TL209")["command"] == "uvx big"


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel does not tell")
def test_a_download_is_told_from_a_hang_by_its_connections(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:
        fetch = (
            f"import socket,time; s = socket.create_connection(('127.0.0.1', {index.getsockname()[1]})); time.sleep(60)"
        )
        machine.program("npx", f'exec "{sys.executable}" -S -c "{fetch}"')
        machine.program("other", f'exec "{sys.executable}" -S -c "{fetch}"')
        machine.configure(servers={"fetching": {"command": "npx"}, "hanging": {"command": "other"}})

        told = machine.doctor(timeout=5)

    assert {one["server"]: one["code"] for one in told.findings} == {"fetching": "TL209", "hanging": "TL208"}


def test_a_revision_that_is_insisted_on_and_not_spoken_is_named(machine: Machine) -> None:
    machine.configure(faulty("--era", "legacy", era="modern"))

    told = machine.doctor()

    assert told.codes == ["TL401"]
    assert 'era = "modern"' in told.advice
    machine.configure(faulty("--era", "legacy"))
    assert machine.is_well()
