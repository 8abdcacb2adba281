"""The configuration: files of every kind, the environment, flags, and complaints that help."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from trunkline.config.reading import find_file, load, parse
from trunkline.config.server import ServerSpec
from trunkline.errors import ConfigError

CLAUDE = {"mcpServers": {"files": {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}, "autoApprove": ["x"]}}}
VSCODE: dict[str, Any] = {
    "inputs": [],
    "servers": {"files": {"type": "stdio", "command": "npx"}, "web": {"type": "sse", "url": "http://h/s"}},
}


def test_a_clients_own_file_is_taken_as_it_is() -> None:
    claude = parse(CLAUDE, env={})
    vscode = parse(VSCODE, env={})

    assert claude.servers["files"].args == ("-y", "files")
    assert claude.servers["files"].env == {"A": "1"}
    assert [spec.kind for spec in vscode.servers.values()] == ["stdio", "sse"]


def test_what_clients_write_is_understood_by_any_of_its_names_beside_options_of_ours() -> None:
    servers = {
        "web": {"serverUrl": "https://h/mcp", "type": "streamableHttp", "timeout": 60_000, "concurrency": 2},
        "off": {"command": "x", "args": [1, True], "env": {"A": 2, "B": None, "C": False}, "disabled": True},
    }

    config = parse({"mcpServers": servers}, env={})

    web, off = config.servers["web"], config.servers["off"]
    assert (web.url, web.kind, web.timeout, web.concurrency) == ("https://h/mcp", "http", 60.0, 2)
    assert (off.args, off.env, off.enabled) == (("1", "true"), {"A": "2", "C": "false"}, False)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"autoApprove": []}, "has no address"),
        ({"command": "x", "url": "http://h/"}, "both a command and a URL"),
        ({"command": "x", "args": "one"}, "servers.it: its args is not a list"),
        ({"command": "x", "env": {"A": []}}, "servers.it: its env is not a text"),
        ({"command": "x", "concurrency": "many"}, "concurrency"),
    ],
)
def test_a_clients_server_that_cannot_be_is_refused_with_what_is_wrong(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse({"mcpServers": {"it": spec}}, env={})


def test_comments_and_trailing_commas_of_vs_code_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{ // mine\n "servers": {"a": {"type": "http", "url": "http://h//x", /* no */ },},}')

    assert load(file, env={}).servers["a"].url == "http://h//x"


def test_variables_are_put_in_and_a_missing_one_concerns_its_server_alone() -> None:
    servers = {
        "good": {"url": "http://${env:HOST}/", "headers": {"X": "${TOKEN:-none}"}},
        "bad": {"command": "x", "env": {"KEY": "${env:ABSENT}"}},
    }

    config = parse({"servers": servers}, env={"HOST": "h"})

    assert config.servers["good"].url == "http://h/"
    assert config.servers["good"].headers == {"X": "none"}
    assert config.servers["good"].problem == ""
    assert "ABSENT" in config.servers["bad"].problem


def test_flags_outrank_the_environment_which_outranks_the_file(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text("[gateway]\nport = 1\npage_size = 2\nsettle = 0.1\n")

    config = load(file, env={"TRUNKLINE_GATEWAY_PORT": "3", "TRUNKLINE_GATEWAY_PAGE_SIZE": "4"}, flags={"port": "5"})

    assert (config.gateway.port, config.gateway.page_size, config.gateway.settle) == (5, 4, 0.1)


def test_the_folders_file_comes_before_the_users(tmp_path: Path) -> None:
    mine = tmp_path / "config" / "trunkline" / "trunkline.toml"
    mine.parent.mkdir(parents=True)
    mine.write_text("")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    assert find_file(env, tmp_path) == mine
    (tmp_path / "trunkline.toml").write_text("")
    assert find_file(env, tmp_path) == tmp_path / "trunkline.toml"


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"gatway": {}}, "Did you mean 'gateway'"),
        ({"gateway": {"prot": 1}}, "Did you mean 'port'"),
        ({"gateway": {"port": "x"}}, "gateway"),
        ({"servers": {"a": {}}}, "no address"),
        ({"servers": {"a": {"command": "x", "url": "http://h"}}}, "both a command and a URL"),
        ({"servers": {"a": {"url": "ftp://h"}}}, "not an http address"),
        ({"servers": {"a b": {"command": "x"}}}, "cannot be a server's name"),
        ({"servers": {"a": {"command": "x", "timeout": 0}}}, "more than 0"),
        ({"servers": {"a": {"command": "x", "transport": "http"}}}, "cannot be reached by"),
        ({"servers": []}, "must be a table"),
        ({"gateway": {"token": "${env:NOPE}"}}, "NOPE is not set"),
        ({"gateway": {"question_timeout": 0}}, "gateway.question_timeout must be more than 0"),
        ({"cahce": {}}, "Did you mean 'cache'"),
        ({"cache": {"tll": 1}}, "Did you mean 'ttl'"),
        ({"cache": {"strategy": "lifo"}}, "cache.strategy"),
        ({"cache": {"ttl": -1}}, "cache.ttl must be 0 or more"),
        ({"cache": {"ttl": float("nan")}}, "cache.ttl must be 0 or more"),
        ({"cache": {"max_size": 0}}, "cache.max_size must be more than 0"),
        ({"router": {"strategy": "dice"}}, "router.strategy"),
        ({"router": {"fallback_strategy": "affinity"}}, "router.fallback_strategy"),
        ({"router": {"retry_ratio": 1.5}}, "router.retry_ratio must be at most 1"),
        ({"router": {"eject_error_rate": 0.0}}, "router.eject_error_rate must be more than 0"),
        ({"router": {"eject_seconds": 0}}, "router.eject_seconds must be more than 0"),
        ({"router": {"max_retries": -1}}, "router.max_retries must be 0 or more"),
        ({"router": {"category_mapping": {"payment": "a"}}}, "router.category_mapping"),
        ({"batcher": {"max_wait": 0}}, "batcher.max_wait must be more than 0"),
        ({"batcher": {"max_queue": 1.5}}, "batcher.max_queue"),
        ({"programs": {"compute": 0}}, "programs.compute must be more than 0. Leave it out to have 5.0"),
        ({"programs": {"calls": 0}}, "programs.calls must be more than 0"),
        ({"programs": {"running_per_user": 0}}, "programs.running_per_user must be more than 0"),
        ({"programs": {"timeout": -1}}, "programs.timeout must be 0 or more"),
        ({"programs": {"keep": float("inf")}}, "programs.keep must be less than"),
        ({"programs": {"memory": 64}}, "programs.memory must be 1048576 or more: it is in bytes"),
        ({"middleware": {"confirm": "always"}}, "middleware.confirm"),
        ({"middleware": {"confirm_timeout": 0}}, "middleware.confirm_timeout must be more than 0"),
        ({"middleware": {"logging": "yes"}}, "middleware.logging"),
        ({"annotations": {"infer": True}}, "Did you mean 'auto_infer'"),
        (
            {"servers": {"a": {"command": "x", "tools": {"t": {"destructive": True}}}}},
            "Did you mean 'destructive_hint'",
        ),
        ({"servers": {"a": {"command": "x", "tools": {"t": {"retries": -1}}}}}, "servers.a.tools.t.retries must be 0"),
        ({"servers": {"a": {"command": "x", "tools": {"t": {"complexity": "hard"}}}}}, "servers.a.tools.t"),
        ({"servers": {"a": {"command": "x", "tools": {"t": True}}}}, "servers.a.tools.t must be a table"),
        ({"tools": {"t": {"destructive": True}}}, "tools.t has no option 'destructive'"),
    ],
)
def test_a_wrong_configuration_is_refused_with_what_is_wrong(document: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(document, env={})

    assert complaint in str(caught.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{")

    with pytest.raises(ConfigError, match=r"x\.json is not valid JSON"):
        load(file, env={})
    with pytest.raises(ConfigError, match="There is no file"):
        load(tmp_path / "y.toml", env={})


def test_what_may_be_secret_is_not_printed() -> None:
    spec = parse({"servers": {"a": {"command": "x", "env": {"K": "canary"}}}}, env={}).servers["a"]
    gateway = parse({"gateway": {"token": "canary-canary-canary"}}, env={}).gateway

    assert "canary" not in repr(spec)
    assert "canary" not in repr(gateway)


def test_the_fingerprint_follows_every_option() -> None:
    base = {"command": "x"}
    variants = [base, {**base, "args": ["y"]}, {**base, "env": {"A": "1"}}, {**base, "timeout": 3.0}]

    prints = {parse({"servers": {"a": variant}}, env={}).servers["a"].fingerprint for variant in variants}

    assert len(prints) == len(variants)


# Groups.

TWO = {"one": {"command": "x"}, "two": {"command": "y"}}


def test_a_group_says_who_is_in_it_and_how_calls_are_shared() -> None:
    group = {"servers": ["one", "two"], "strategy": "weighted", "weights": {"one": 70}, "priorities": {"two": 1}}

    found = parse({"servers": TWO, "groups": {"both": group}}, env={}).groups["both"]

    assert (found.name, found.servers, found.strategy) == ("both", ("one", "two"), "weighted")
    assert (found.weights, found.priorities) == ({"one": 70.0}, {"two": 1})


@pytest.mark.parametrize(
    ("groups", "complaint"),
    [
        ({"g": {"servers": ["one", "tow"]}}, "Group 'g' names 'tow', which is no server. Did you mean 'two'?"),
        ({"g": {"servers": ["one", "else"]}}, "Give it an entry under [servers]."),
        ({"g": {"servers": ["one"], "weights": {"tow": 1}}}, "names 'tow', which is no server"),
        ({"g": {"servers": ["one"], "priorities": {"tow": 1}}}, "names 'tow', which is no server"),
        ({"g": {"servers": ["one"], "weights": {"one": -1}}}, "groups.g.weights.one must be 0 or more"),
        ({"g": {"servers": ["one"], "weights": {"one": "much"}}}, "groups.g.weights"),
        ({"g": {"servers": ["one"], "strategy": "dice"}}, "groups.g.strategy"),
        ({"g": {"servers": ["one"], "stratgy": "random"}}, "Did you mean 'strategy'"),
        ({"g": {"servers": "one"}}, "groups.g.servers"),
        ({"g": {"servers": []}}, "Group 'g' has no servers."),
        ({"g": {}}, 'Name some: `servers = ["a", "b"]`.'),
        ({"one": {"servers": ["two"]}}, "'one' is a server and a group. Give the group another name."),
        ({"g": {"servers": ["one"]}, "h": {"servers": ["one"]}}, "Server 'one' is in two groups"),
        ({"g": {"servers": ["one", "one"]}}, "or twice in one"),
        ({"g h": {"servers": ["one"]}}, "'g h' cannot be a group's name"),
        ({"g": ["one"]}, "groups.g must be a table"),
        ([], "groups must be a table"),
    ],
)
def test_a_group_that_cannot_be_is_refused_with_what_is_wrong(groups: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"servers": TWO, "groups": groups}, env={})

    assert complaint in str(caught.value)


# What happens to calls.


def test_without_a_word_nothing_is_kept_shared_checked_or_asked_twice() -> None:
    config = parse({}, env={})

    assert (config.cache.enabled, config.batcher.coalesce, config.groups) == (False, False, {})
    middleware = config.middleware
    assert (middleware.confirm, middleware.validate, middleware.logging, middleware.retries) == (
        "marked",
        False,
        False,
        0,
    )
    assert config.annotations.auto_infer is True


def test_every_section_takes_its_options_from_the_file_and_then_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "trunkline.toml"
    file.write_text(
        """
        [cache]
        enabled = true
        ttl = 5
        [router]
        strategy = "random"
        category_mapping = { payment = ["one"] }
        [batcher]
        max_queue = 3
        [annotations]
        auto_infer = false
        [middleware]
        confirm = "destructive"
        """
    )
    env = {
        "TRUNKLINE_CACHE_TTL": "7.5",
        "TRUNKLINE_ROUTER_MAX_RETRIES": "1",
        "TRUNKLINE_BATCHER_COALESCE": "true",
        "TRUNKLINE_MIDDLEWARE_CONFIRM": "writes",
        "TRUNKLINE_ANNOTATIONS_AUTO_INFER": "1",
    }

    config = load(file, env=env)

    assert (config.cache.enabled, config.cache.ttl) == (True, 7.5)
    assert (config.router.strategy, config.router.max_retries) == ("random", 1)
    assert config.router.category_mapping == {"payment": ("one",)}
    assert (config.batcher.max_queue, config.batcher.coalesce) == (3, True)
    assert config.annotations.auto_infer is True
    assert config.middleware.confirm == "writes"


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("TRUNKLINE_CACHE_TTL", "-1", "cache.ttl must be 0 or more"),
        ("TRUNKLINE_CACHE_TTL", "soon", "cache"),
        ("TRUNKLINE_ROUTER_RETRY_RATIO", "2", "router.retry_ratio must be at most 1"),
        ("TRUNKLINE_ROUTER_FALLBACK_STRATEGY", "affinity", "affinity"),
        ("TRUNKLINE_MIDDLEWARE_CONFIRM", "always", "middleware"),
    ],
)
def test_a_wrong_variable_is_refused_as_the_file_would_be(variable: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, env={variable: value})

    assert complaint in str(caught.value)


def test_what_is_said_of_the_tools_of_all_servers_yields_to_what_is_said_of_one() -> None:
    everywhere = {"delete": {"destructive_hint": True, "cost_hint": 1.0}, "get_*": {"read_only_hint": True}}
    own = {"delete": {"cost_hint": 2.0}}
    document = {"tools": everywhere, "servers": {"a": {"command": "x", "tools": own}, "b": {"command": "y"}}}

    servers = parse(document, env={}).servers

    assert (servers["a"].tools["delete"].destructive_hint, servers["a"].tools["delete"].cost_hint) == (True, 2.0)
    assert servers["b"].tools["delete"].cost_hint == 1.0
    assert servers["a"].tools["get_*"].read_only_hint is True


def test_what_is_said_of_tools_is_read_and_changes_no_connection() -> None:
    tools = {"delete_*": {"requires_confirmation": True, "tags": ["risky"]}, "*": {"cache_ttl": 5, "timeout": 2}}

    plain = parse({"servers": {"a": {"command": "x"}}}, env={}).servers["a"]
    said = parse({"servers": {"a": {"command": "x", "tools": tools}}}, env={}).servers["a"]

    assert said.tools["delete_*"].requires_confirmation is True
    assert said.tools["delete_*"].tags == ("risky",)
    assert (said.tools["*"].cache_ttl, said.tools["*"].timeout) == (5.0, 2.0)
    assert said.fingerprint == plain.fingerprint


def test_the_score_below_which_nothing_is_found_is_that_of_the_search_itself() -> None:
    from trunkline.config.options import SearchSection
    from trunkline.search.calibrate import DEFAULT_MIN_SCORE

    assert SearchSection().min_score == DEFAULT_MIN_SCORE


def test_a_variable_that_is_none_of_a_few_values_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="'search'"):
        load(None, env={"TRUNKLINE_GATEWAY_EXPOSE": "some"})


UNSENDABLE: dict[str, tuple[dict[str, Any], str]] = {
    "NUL in the command": ({"command": "a\0b"}, "`command`"),
    "NUL in an argument": ({"command": "x", "args": ["a\0b"]}, "`args`"),
    "NUL in the folder": ({"command": "x", "cwd": "a\0b"}, "`cwd`"),
    "NUL in a variable": ({"command": "x", "env": {"A": "hush-hush\0"}}, "`env.A`"),
    "a line end in a variable's name": ({"command": "x", "env": {"A\nB": "1"}}, "`env`"),
    "an equals sign in a variable's name": ({"command": "x", "env": {"A=B": "1"}}, "`env`"),
    "a variable without a name": ({"command": "x", "env": {"": "1"}}, "`env`"),
    "CR in a header's name": ({"url": "http://h/", "headers": {"X\rY": "1"}}, "name of a header"),
    "LF in a header's name": ({"url": "http://h/", "headers": {"X: 1\nY": "1"}}, "name of a header"),
    "NUL in a header's name": ({"url": "http://h/", "headers": {"X\0": "1"}}, "name of a header"),
    "LF in a header": ({"url": "http://h/", "headers": {"X": "hush-hush\nY: 2"}}, "`headers.X`"),
    "CR in a header": ({"url": "http://h/", "headers": {"X": "hush-hush\r"}}, "`headers.X`"),
    "NUL in a header": ({"url": "http://h/", "headers": {"X": "hush-hush\0"}}, "`headers.X`"),
    "a line end in the address": ({"url": "http://h/a\r\nX: 1"}, "`url`"),
}


@pytest.mark.parametrize("what", UNSENDABLE)
def test_what_no_program_or_request_could_take_is_refused_by_name(what: str) -> None:
    spec, where = UNSENDABLE[what]

    with pytest.raises(ConfigError) as refused:
        parse({"servers": {"one": spec}}, env={})
    with pytest.raises(ConfigError, match="one"):
        parse({"mcpServers": {"one": spec}}, env={})

    assert "'one'" in str(refused.value)
    assert where in str(refused.value)
    assert "hush-hush" not in str(refused.value)


def test_line_ends_in_variables_and_arguments_are_kept_since_keys_and_scripts_have_them() -> None:
    spec = {"command": "sh", "args": ["-c", "a\nb"], "env": {"KEY": "-----BEGIN\nx\n-----END"}}

    read = parse({"servers": {"one": spec}}, env={}).servers["one"]

    assert (read.args, read.env, read.problem) == (("-c", "a\nb"), spec["env"], "")


def test_a_variable_that_brings_a_line_end_into_a_header_stops_its_server_alone() -> None:
    servers: dict[str, Any] = {
        "one": {"url": "http://h/", "headers": {"X": "${env:TOKEN}"}},
        "two": {"url": "http://h/"},
    }

    config = parse({"servers": servers}, env={"TOKEN": "hush-hush\n"})

    assert "`headers.X`" in config.servers["one"].problem
    assert "hush-hush" not in config.servers["one"].problem
    assert config.servers["two"].problem == ""


ADDRESSES = {
    "https://ann:hush%40hush@h.example:8443/mcp?key=k#f": "https://h.example:8443/mcp",
    "https://ann@h/mcp": "https://h/mcp",
    "https://a:b@c@h/mcp": "https://h/mcp",
    "https://h/@ann": "https://h/@ann",
    "https://h?x=@a": "https://h",
    "http://[bad": "http://[bad",
}


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_is_shown_without_what_may_be_secret_in_it(url: str) -> None:
    assert ServerSpec("one", url=url).address == ADDRESSES[url]


def test_the_password_of_an_address_is_sent_as_other_clients_send_it_unless_a_header_says_otherwise() -> None:
    spec = ServerSpec("one", url="https://ann:hush%40hush@h/")

    assert spec.sent_headers == {"Authorization": "Basic YW5uOmh1c2hAaHVzaA=="}
    assert dataclasses.replace(spec, headers={"authorization": "x"}).sent_headers == {"authorization": "x"}
    assert spec.without_secrets("401 for hush@hush and hush%40hush") == "401 for *** and ***"
