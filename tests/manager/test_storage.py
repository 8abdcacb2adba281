"""What is kept, under ART's names: what its storage promises, and what it got wrong."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import until
from tests.manager.house import house, manager, served, somewhere
from tests.tenancy.oauth.provider import provider
from tests.tenancy.test_load import asleep
from trunkline import (
    Config,
    Credentials,
    McpAppConfig,
    McpConnection,
    McpServerConfig,
    McpUserConfig,
    Thread,
    open_hub,
)
from trunkline.config.tenancy import LimitsSection
from trunkline.errors import AuthorizationNeededError, ConfigError, NotFoundError, UnknownNameError
from trunkline.identity import Overrides

SECRET = {"Authorization": "Bearer hush-hush-token"}


def nowhere(id: str, **fields: Any) -> McpServerConfig:
    """A server that nobody can reach."""
    return McpServerConfig(id, McpConnection("http://127.0.0.1:9/mcp"), defer_loading=False, **fields)


async def test_configurations_of_app_and_users_are_kept_apart_and_run_at_once(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git", "linear") as far:
        async with house(tmp_path / "hub", "github") as hub, manager(hub) as ana:
            storage = ana.storage
            await storage.init()
            await storage.set_app_config(McpAppConfig((far["git"],)))
            await storage.set_user_config("ana", McpUserConfig("ana", (far["linear"],)))

            assert (await ana.registry.get_server_status("git", "bob")).status == "connected"
            assert set(await storage.get_deferred_tools("ana")) >= {"git__showLog", "linear__addComment"}
            assert "linear__addComment" not in await storage.get_deferred_tools("bob")
        async with house(tmp_path / "hub", "github") as hub, manager(hub) as ana:
            assert (await ana.storage.get_app_config()).servers == (far["git"],)
            assert (await ana.storage.get_user_config("ana")).servers == (far["linear"],)
            assert (await ana.storage.get_user_config("bob")).servers == ()
            assert await ana.storage.list_user_ids() == ["ana"]


async def test_setting_a_configuration_changes_what_differs_and_nothing_if_one_server_is_wrong(tmp_path: Path) -> None:
    async with house(tmp_path, "github") as hub, manager(hub) as ana:
        storage = ana.storage
        one, two = nowhere("one", tags=("a",)), nowhere("two", description="d", timeout=3.0)
        await storage.set_app_config(McpAppConfig((one, two)))

        changed = dataclasses.replace(two, description="e")
        await storage.set_app_config(McpAppConfig((one, changed, nowhere("three"))))
        for wrong in (nowhere("x y"), dataclasses.replace(one, type="stdio"), one):
            with pytest.raises(ConfigError):
                await storage.set_app_config(McpAppConfig((changed, one, wrong)))

        kept = await storage.get_app_config()
        assert kept.servers == (one, nowhere("three"), changed)
        versions = [(await hub.relay.tenancy.servers.get("", name)).version for name in ("one", "two", "three")]
        assert versions == [1, 2, 1]
        with pytest.raises(ConfigError, match="configuration of 'bob'"):
            await storage.set_user_config("ana", McpUserConfig("bob"))
        with pytest.raises(ConfigError, match="Whose"):
            await storage.get_user_config("")


async def test_limits_of_a_user_are_checked_and_kept_and_calls_are_counted(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub, manager(hub) as ana:
        with pytest.raises(NotFoundError, match="no user 'ana'"):
            await ana.storage.set_user_config("ana", McpUserConfig("ana", cost_limits={"calls_per_hour": 1}))
        await hub.relay.tenancy.people.add_user("ana")

        await ana.storage.set_user_config("ana", McpUserConfig("ana", cost_limits={"calls_per_hour": 1}))
        with pytest.raises(ConfigError, match="no limit 'dances'"):
            await ana.storage.set_user_config("ana", McpUserConfig("ana", cost_limits={"dances": 1}))

        assert (await ana.storage.get_user_config("ana")).cost_limits == {"calls_per_hour": 1}
        await (await ana.get_thread_tools("t"))[0].execute()
        assert (await ana.storage.get_user_config("ana")).total_calls == 1


async def test_threads_are_kept_for_each_user(tmp_path: Path) -> None:
    async with house(tmp_path, "git", "linear") as hub, manager(hub) as ana:
        storage = ana.storage
        assert await storage.get_thread_config("t", "ana") is None
        said = Thread("t", servers=("git",), overrides=Overrides(timeout=5.0, limits=(("calls_per_hour", 3.0),)))

        await storage.set_thread_config("t", said, "ana")
        await storage.set_thread_config("u", said, "ana")

        kept = await storage.get_thread_config("t", "ana")
        assert kept is not None
        assert (kept.servers, kept.overrides, kept.user) == (said.servers, said.overrides, "ana")
        assert await storage.list_thread_ids("ana") == ["t", "u"]
        assert await storage.list_thread_ids("bob") == []
        with pytest.raises(NotFoundError):
            await storage.set_thread_config("t", Thread("t", servers=("gitlab",)), "ana")
        await storage.delete_thread_config("t", "ana")
        await storage.delete_thread_config("t", "ana")
        assert await storage.list_thread_ids("ana") == ["u"]


async def test_deferred_tools_are_searched_among_what_the_user_has(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git") as far, house(tmp_path / "hub", "linear") as hub, manager(hub) as ana:
        await ana.register_server(far["git"])

        found = await ana.storage.search_deferred_tools("history of commits", user_id="ana")

        assert [tool.name for tool in found] == ["git__showLog"]
        assert [tool.name for tool in await ana.storage.get_deferred_tools_for_server("git", "ana")] == ["git__showLog"]
        assert await ana.storage.search_deferred_tools("history of commits", user_id="bob") == []
        with pytest.raises(NotFoundError):
            await ana.storage.get_deferred_tools_for_server("git", "bob")


async def test_an_export_goes_into_another_store_whole_and_runs_there(tmp_path: Path) -> None:
    async with somewhere(tmp_path / "far", "git", "linear") as far:
        secret = dataclasses.replace(far["git"], connection=McpConnection(far["git"].connection.url, SECRET))
        async with house(tmp_path / "one") as hub, manager(hub) as ana:
            await hub.mount(served("github"))
            await ana.register_server(secret)
            await ana.register_server(far["linear"], "app")
            await ana.set_thread_servers("t", ["git"])
            with pytest.raises(ConfigError, match=r"things of 'ana', who is no user"):
                await ana.storage.export()
            await hub.relay.tenancy.people.add_user("ana")
            await hub.ready(10)
            assert len(await ana.get_thread_tools("t")) == 1
            plain, sealed = await ana.storage.export(), await ana.storage.export("passphrase")
            assert "hush" not in plain + sealed

        async with house(tmp_path / "two") as hub, manager(hub) as ana:
            await hub.mount(served("github"))
            found = await ana.storage.import_(sealed, "passphrase")
            assert found.added[:4] == ["user ana", "server linear", "server ana/git", "thread ana/t"]
            assert found.added[4:] == ["pins github", "pins linear", "pins ana/git"]
            assert len(await (await ana.get_or_create_connection("linear")).list_tools()) == 2
            assert (await ana.storage.get_user_config("ana")).servers == (secret,)
            assert [tool.name for tool in await ana.get_thread_tools("t")] == ["git__showLog"]
            assert json.loads(await ana.storage.export()) == json.loads(plain)
            for wrong in ("", "[]", "{}", plain.replace('"version": 2', '"version": 9')):
                with pytest.raises(ConfigError):
                    await ana.storage.import_(wrong)
            await ana.storage.clear()
            assert (await ana.storage.get_app_config()).servers == ()
            assert (await ana.storage.get_user_config("ana")).servers == ()
            assert await ana.storage.list_thread_ids("ana") == []


async def test_deleting_a_users_configuration_leaves_everybody_elses(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        for user in ("ana", "bob"):
            await ana.registry.register_server(dataclasses.replace(nowhere("mine"), defer_loading=True), "user", user)
            await ana.context_manager.set_thread_overrides("t", user, timeout=5.0)

        await ana.storage.delete_user_config("ana")

        assert await ana.storage.list_user_ids() == ["bob"]
        assert len((await ana.storage.get_user_config("bob")).servers) == 1
        assert await ana.storage.list_thread_ids("bob") == ["t"]


# What the original got wrong.


async def test_credentials_are_never_in_plain_text_on_the_disk(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        config = dataclasses.replace(nowhere("x"), connection=McpConnection("http://127.0.0.1:9/mcp", SECRET))
        await ana.register_server(config)

        kept = await ana.registry.get_server("x", "ana")

    assert kept is not None
    assert kept.connection.headers == SECRET
    names = {path.name: path for path in _files(tmp_path)}
    assert "trunkline.db" in names
    assert [name for name, path in names.items() if b"hush-hush" in path.read_bytes()] == []


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_credentials_belong_to_one_user_and_one_server_however_they_are_named(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        for user, id, value in (("a.b", "c", "one"), ("a", "b.c", "two")):
            connection = McpConnection("http://127.0.0.1:9/mcp", {"X-Key": value})
            config = McpServerConfig(id, connection, defer_loading=True)
            await ana.registry.register_server(config, "user", user)
        with pytest.raises(ConfigError, match="cannot be a user's name"):
            await hub.relay.tenancy.people.add_user("a/b")
        with pytest.raises(ConfigError, match="cannot be a server's name"):
            await ana.registry.register_server(nowhere("b:c"), "user", "a")

        kept = [await ana.registry.get_server(id, user) for user, id in (("a.b", "c"), ("a", "b.c"))]
        assert [one.connection.headers["X-Key"] for one in kept if one] == ["one", "two"]

        store = await hub.relay.tenancy.store()
        await store.fetch(
            "UPDATE credentials SET record = (SELECT record FROM credentials WHERE owner = 'a') WHERE owner = 'a.b'"
        )
        swapped = (await hub.relay.tenancy.servers.get("a.b", "c")).spec
        assert ("X-Key" in swapped.headers, "changed by somebody else" in swapped.problem) == (False, True)


async def test_credentials_go_with_their_server(tmp_path: Path) -> None:
    async with house(tmp_path, "git") as hub, manager(hub) as ana:
        config = dataclasses.replace(nowhere("x"), connection=McpConnection("http://127.0.0.1:9/mcp", SECRET))
        await ana.register_server(config)

        await ana.unregister_server("x")

        rows = await (await hub.relay.tenancy.store()).fetch("SELECT name FROM documents")
        assert rows == []


async def test_a_sign_in_that_was_made_elsewhere_is_used_and_renewed_for_its_user_alone(tmp_path: Path) -> None:
    async with provider() as one, house(tmp_path, "linear") as hub, manager(hub) as ana:
        oauth = {
            "authorization_url": f"{one.url}/authorize", "token_url": f"{one.url}/token",
            "client_id": "art", "scopes": ["read"],
        }  # fmt: skip
        git = {"id": "git", "connection": {"url": f"{one.url}/mcp", "oauth": oauth}, "defer_loading": True}
        await ana.register_server(git, "app")
        storage, made = ana.storage, one.grant(first=True)
        tokens = {name: made[name] for name in ("access_token", "refresh_token")}
        before = await storage.get_user_credentials("ana", "git")
        await storage.set_user_credentials("ana", "git", {**tokens, "expires": 1.0})

        told = [(await hub.call("whoami", user="ana")).text for _ in range(2)]
        refused = await storage.get_user_credentials("bob", "git")
        with pytest.raises(UnknownNameError):
            await hub.call("whoami", user="bob")
        held = await storage.get_user_credentials("ana", "git")
        kept = await ana.registry.get_server("git", "ana")
        await storage.delete_user_credentials("ana", "git")
        with pytest.raises((AuthorizationNeededError, UnknownNameError)):
            await hub.call("whoami", user="ana")

    assert (before, refused, told) == (None, None, ["you", "you"])
    assert [(asked["refresh_token"], asked["client_id"]) for asked in one.refreshes] == [
        (tokens["refresh_token"], "art")
    ]
    assert held is not None
    assert (held.state, held.renewable, tokens["access_token"] in str(held)) == ("signed-in", True, False)
    assert kept is not None
    assert (kept.connection.oauth.client_id, kept.connection.oauth.scopes) == ("art", ("read",))
    kept_bytes = b"".join(file.read_bytes() for file in tmp_path.glob("*.db*"))  # noqa: ASYNC240 - a test's own
    assert not any(token.encode() in kept_bytes for token in tokens.values())


@pytest.mark.parametrize("gone", ["the user", "the server"])
async def test_who_registers_a_server_of_a_name_that_was_signed_in_begins_without_a_sign_in(
    tmp_path: Path, gone: str
) -> None:
    async with provider() as one, house(tmp_path, "linear") as hub, manager(hub) as ana:
        people = hub.relay.tenancy.people
        await people.add_user("ana")
        config = McpServerConfig("git", McpConnection(f"{one.url}/mcp"), defer_loading=True)
        await ana.register_server(config)
        await ana.storage.set_user_credentials("ana", "git", {"access_token": one.grant()["access_token"]})
        before = (await hub.call("whoami", user="ana")).text
        if gone == "the user":
            await people.remove_user("ana")
            await until(lambda: hub.relay.tenants.spec_of("ana/git") is None)
            await people.add_user("ana")
        else:
            await ana.unregister_server("git")
        await ana.register_server(config)

        with pytest.raises((AuthorizationNeededError, UnknownNameError)):
            await hub.call("whoami", user="ana")

    assert before == "you"


async def test_credentials_that_could_not_be_used_are_refused(tmp_path: Path) -> None:
    async with provider() as one, house(tmp_path, "linear") as hub, manager(hub) as ana:
        with_key = McpConnection(f"{one.url}/mcp", {"Authorization": "Bearer x"})
        await ana.register_server(McpServerConfig("keyed", with_key, defer_loading=True))
        await ana.register_server(McpServerConfig("git", McpConnection(f"{one.url}/mcp"), defer_loading=True))
        wrong: list[tuple[str, Any, str]] = [
            ("keyed", {"access_token": "x"}, "wants no sign-in"),
            ("git", {"access_token": "x", "refresh_token": "y"}, "which client renews"),
            ("git", {"refresh_token": "y"}, "access_token"),
        ]
        for server, credentials, words in wrong:
            with pytest.raises(ConfigError, match=words):
                await ana.storage.set_user_credentials("ana", server, credentials)
        with pytest.raises(NotFoundError):
            await ana.storage.set_user_credentials("ana", "nothing", Credentials("x"))
        with pytest.raises(ConfigError, match="A sign-in has no 'client_name'"):
            await ana.register_server({"id": "x", "connection": {"url": one.url, "oauth": {"client_name": "x"}}})

        assert await ana.storage.get_user_credentials("ana", "git") is None


async def test_an_idle_connection_that_closes_signs_nobody_out(tmp_path: Path) -> None:
    config = Config(home=tmp_path, limits=LimitsSection(connections=1))
    async with provider() as one, open_hub(config) as hub, manager(hub) as ana:
        for name in ("one", "two"):
            connection = McpConnection(f"{one.url}/mcp")
            await ana.register_server(McpServerConfig(name, connection, defer_loading=True))
            await ana.storage.set_user_credentials("ana", name, {"access_token": one.grant()["access_token"]})
            await ana.get_or_create_connection(name)
        told: list[str] = []
        for name in ("one", "two", "one", "two"):
            told.append((await hub.call(f"{name}__whoami", user="ana")).text)
            await until(lambda other={"one": "two", "two": "one"}[name]: asleep(hub) == {f"ana/{other}"})
        held = [await ana.storage.get_user_credentials("ana", name) for name in ("one", "two")]

    assert told == ["you"] * 4
    assert [one.state for one in held if one is not None] == ["signed-in"] * 2
    assert (one.refreshes, one.revoked, one.authorizations) == ([], [], [])
