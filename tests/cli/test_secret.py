"""`trunkline secret`, as a stranger uses it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest

from tests.cli.inside import run
from tests.cli.terminal import at_terminal
from tests.cli.test_commands import home
from tests.faults.scene import all_tried, get
from tests.harness import ModernCaller, faulty, trunkline_up

__all__ = ["home"]

VALUE = "s3cret-9a7c"


def test_a_secret_is_set_listed_and_removed_and_its_value_shows_nowhere(home: dict[str, str]) -> None:
    done = [
        run("secret", "set", "a.KEY", env=home, stdin=f"{VALUE}\n"),
        run("secret", "set", "b", "--format", "json", env=home, stdin=VALUE),
        run("secret", "list", env=home),
        run("secret", "list", "--format", "json", env=home),
        run("secret", "remove", "b", env=home),
        run("secret", "list", "--format", "compact", "--debug", env=home),
    ]

    assert [one.returncode for one in done] == [0] * 6
    assert "Use it as ${secret:a.KEY}" in done[0].stderr
    assert json.loads(done[1].stdout) == {"set": "b", "kept_in": "file"}
    assert done[2].stdout == "a.KEY\nb\n"
    assert json.loads(done[3].stdout) == {"secrets": ["a.KEY", "b"]}
    assert done[5].stdout == "a.KEY\n"
    assert not [one for one in done if VALUE in one.stdout + one.stderr]


def test_a_person_types_it_unseen(home: dict[str, str]) -> None:
    code, screen = at_terminal("secret", "set", "k", env=home, answers={"not shown": VALUE})
    config = Path(home["HOME"]) / "trunkline.toml"
    config.write_text('[servers.a]\ncommand = "x"\nenv = {K = "${secret:k}"}\n')

    assert code == 0
    assert VALUE not in screen
    assert "problem" not in run("list", "--format", "json", env=home).stdout


@pytest.mark.parametrize(
    ("words", "stdin", "complaint"),
    [
        (("secret",), "", "required: ACTION"),
        (("secret", "set", "a", VALUE), "", "unrecognized arguments"),
        (("secret", "set", "a b"), VALUE, "cannot be a secret's name"),
        (("secret", "set", "a"), "", "must be a text of 1 byte"),
        (("secret", "remove", "nope"), "", "There is no secret 'nope'"),
    ],
)
def test_wrong_use_is_explained(words: tuple[str, ...], stdin: str, complaint: str, home: dict[str, str]) -> None:
    done = run(*words, env=home, stdin=stdin)

    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_secret_is_the_reason_that_is_shown(home: dict[str, str]) -> None:
    file = Path(home["HOME"]) / "trunkline.toml"
    file.write_text('[servers.a]\ncommand = "x"\nenv = {K = "${secret:a.K}"}\n')

    listed = json.loads(run("list", "--format", "json", env=home).stdout)["servers"][0]
    tested = run("test", "a", env=home)

    assert listed["problem"] == "the secret a.K is not set. Run `trunkline secret set a.K`."
    assert (tested.returncode, "the secret a.K is not set" in tested.stdout) == (3, True)


async def test_a_running_gateway_takes_on_a_secret_as_soon_as_it_is_set(
    tmp_path: Path, home: dict[str, str], http: aiohttp.ClientSession
) -> None:
    servers = {"one": faulty(env={"API_KEY": "${secret:one.API_KEY}"}), "two": faulty()}
    env = {**home, "TRUNKLINE_HOME": str(tmp_path / "gateway")}
    with trunkline_up(tmp_path / "gateway", {"gateway": {}, "servers": servers}) as (url, process):
        await all_tried(http, url)
        before = (await get(http, url, "/readyz"))["servers"]["one"]["state"]
        set_to = run("secret", "set", "one.API_KEY", env=env, stdin=VALUE)
        async with asyncio.timeout(15):
            while (await get(http, url, "/readyz"))["servers"]["one"]["state"] != "ready":  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)
        seen = json.loads((await ModernCaller(url, http).call("one__env")).text)
        process.terminate()
        said = process.communicate(timeout=15)

    assert (before, set_to.returncode) == ("unreachable", 0)
    assert seen["environ"]["API_KEY"] == VALUE
    assert VALUE not in str(said)
