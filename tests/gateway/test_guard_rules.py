"""The guard's rules one by one, as tables: each line of them lets somebody in or keeps somebody out."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from trunkline.config.exposure import check_exposure, is_loopback
from trunkline.config.options import GatewayConfig
from trunkline.config.tenancy import IssuerSpec
from trunkline.errors import ConfigError, RefusedError, TokenRefusedError
from trunkline.gateway import guard as guards
from trunkline.gateway.guard import Guard
from trunkline.gateway.request import Request
from trunkline.identity import EVERYONE
from trunkline.storage.store import Store
from trunkline.tenancy.issuers import Issuers
from trunkline.tenancy.keys import KeyMaker
from trunkline.tenancy.people import ANYONE, Admission, People


async def nowhere() -> Store:
    raise AssertionError("nobody is looked up where there is no user")


PEOPLE = People(nowhere, lambda: False, KeyMaker(lambda: bytes(32)))
"""Nobody."""
ISSUERS = Issuers({}, "", PEOPLE)
SOME_ISSUER = Issuers({"corp": IssuerSpec("corp", issuer="https://corp.example")}, "", PEOPLE)


def somebody() -> People:
    """A user has a key."""
    people = People(nowhere, lambda: True, KeyMaker(lambda: bytes(32)))
    people.anybody = True
    return people


TOKEN, OTHER = "abcdefgh-ijklmnop", "qrstuvwx-yz012345"


class Nowhere:
    closed = False
    peer = ""

    def write(self, data: bytes) -> None: ...

    async def writable(self) -> None: ...


def request(**headers: str) -> Request:
    made = {name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()}
    return Request(Nowhere(), "GET", "/", made, b"")


def status_of(guard: Guard, *, same_origin: bool = False, **headers: str) -> int:
    try:
        guard.check(request(**headers), same_origin=same_origin)
    except RefusedError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost.evil.com", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_an_address_reaches_this_machine_alone_or_not(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


WEAK: list[tuple[dict[str, Any], str]] = [
    ({"token": TOKEN[:15]}, "too short"),
    ({"token": "abcdefg" * 3}, "placeholder"),
    ({"token": "abcdefgh ijklmnop"}, "placeholder"),
    ({"token": "abcdefghijklmnop "}, "placeholder"),
    ({"users": {"ann": TOKEN, "bob": TOKEN}}, "share a token"),
    ({"token": TOKEN, "users": {"ann": TOKEN}}, "share a token"),
    ({"users": {"ann": TOKEN, "bob": ""}}, "share a token"),
    ({"users": {"ann": "short"}}, "too short"),
    ({"host": "0.0.0.0"}, "without a token"),
]
STRONG: list[dict[str, Any]] = [
    {},
    {"host": "localhost"},
    {"token": TOKEN[:16]},
    {"token": "abcdefgh" * 2},
    {"token": TOKEN, "users": {"ann": OTHER}},
    {"users": {"ann": TOKEN, "bob": OTHER}},
    {"host": "0.0.0.0", "token": TOKEN},
    {"host": "0.0.0.0", "users": {"ann": TOKEN}},
]


@pytest.mark.parametrize(("options", "words"), WEAK)
def test_a_gateway_does_not_start_with_weak_tokens(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_exposure(GatewayConfig(**options))


@pytest.mark.parametrize("options", STRONG)
def test_a_gateway_starts_with_strong_ones(options: dict[str, Any]) -> None:
    check_exposure(GatewayConfig(**options))


@pytest.mark.parametrize(
    ("options", "host", "expected"),
    [
        ({}, "localhost", 200),
        ({}, "example.org", 421),
        ({"allowed_hosts": ["Example.ORG"]}, "example.org", 200),
        ({"allowed_hosts": ["Example.ORG"]}, "EXAMPLE.org:80", 200),
        ({"allowed_hosts": ["example.org"]}, "other.org", 421),
        ({"host": "0.0.0.0", "token": TOKEN}, "any.name", 200),
        ({"host": "0.0.0.0", "token": TOKEN}, "", 421),
        ({"host": "0.0.0.0"}, "any.name", 421),
        ({"host": "127.0.0.1", "token": TOKEN}, "any.name", 421),
        ({"host": "0.0.0.0", "token": TOKEN, "allowed_hosts": ["example.org"]}, "any.name", 421),
        ({"host": "0.0.0.0", "token": TOKEN, "allowed_hosts": ["example.org"]}, "example.org", 200),
    ],
)
def test_a_host_is_served_or_not(options: dict[str, Any], host: str, expected: int) -> None:
    guard = Guard(GatewayConfig(**options), PEOPLE, ISSUERS)

    assert [status_of(guard, host=host) for _ in range(2)] == [expected] * 2


ORIGINS: list[tuple[dict[str, Any], bool, str, int]] = [
    ({}, False, "http://localhost:5173", 200),
    ({}, False, "https://127.0.0.1", 200),
    ({}, False, "https://[::1]:80", 200),
    ({}, False, "https://[::1]80", 403),
    ({}, False, "https://[::1]:8", 200),
    ({}, False, "https://[::1]:8x", 403),
    ({}, False, "https://[::1]:", 403),
    ({}, False, "https://[::1", 403),
    ({}, False, "ftp://localhost", 403),
    ({}, False, "HTTP://LOCALHOST", 200),
    ({}, False, "https://app.org", 403),
    ({"allowed_origins": ["https://App.org/"]}, False, "https://app.ORG", 200),
    ({"allowed_origins": ["https://app.org"]}, False, "https://app.org.evil.com", 403),
    ({"allowed_hosts": ["tl.org:80"]}, True, "http://tl.org:80", 200),
    ({"allowed_hosts": ["tl.org:80"]}, True, "http://tl.org:8", 403),
    ({"allowed_hosts": ["tl.org:80"]}, True, "http://l.org:80", 403),
    ({"allowed_hosts": ["tl.org:80"]}, True, "tl.org:80", 403),
    ({"allowed_hosts": ["tl.org:80"]}, True, "null", 403),
    ({"allowed_hosts": ["tl.org:80"]}, False, "http://tl.org:80", 403),
]


@pytest.mark.parametrize(("options", "same_origin", "origin", "expected"), ORIGINS)
def test_an_origin_is_served_or_not(options: dict[str, Any], same_origin: bool, origin: str, expected: int) -> None:
    guard = Guard(GatewayConfig(**options), PEOPLE, ISSUERS)
    host = "tl.org:80" if options.get("allowed_hosts") else "localhost"

    assert status_of(guard, same_origin=same_origin, host=host, origin=origin) == expected
    assert status_of(guard, same_origin=same_origin, host=host) == 200


def test_a_header_that_came_twice_is_refused_whatever_it_is() -> None:
    twice = request(host="localhost")
    twice.repeated = b"host"

    with pytest.raises(RefusedError, match="host occurs twice"):
        Guard(GatewayConfig(), PEOPLE, ISSUERS).check(twice)


def test_hosts_are_looked_up_once_and_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    split: list[str] = []
    whole: Any = vars(guards)["_without_port"]
    monkeypatch.setattr(guards, "_without_port", lambda host: (split.append(host), whole(host))[1])  # type: ignore[reportUnknownLambdaType]
    guard = Guard(GatewayConfig(), PEOPLE, ISSUERS)
    for _ in range(2):
        for number in range(100):
            status_of(guard, host=f"host-{number}")
    kept = len(split)
    for _ in range(2):
        status_of(guard, host="one more")

    assert (kept, len(split)) == (100, 102)


@pytest.mark.parametrize(
    ("header", "whose"),
    [
        (f"Bearer {TOKEN}", ""),
        (f"bearer   {TOKEN} ", ""),
        (f"Bearer {OTHER}", "ann"),
        (f"Basic {TOKEN}", None),
        (f"Bearer {TOKEN}x", None),
        (f"Bearer {TOKEN[:-1]}", None),
        (f"Bearer{TOKEN}", None),
        (TOKEN, None),
        ("Bearer ", None),
        ("", None),
    ],
)
async def test_a_token_says_whose_request_it_is(header: str, whose: str | None) -> None:
    guard = Guard(GatewayConfig(token=TOKEN, users={"ann": OTHER}), PEOPLE, ISSUERS)

    found = guard.known({b"authorization": header.encode()}, "/mcp")
    assert (found.scope.user if found is not None else None) == whose
    assert guard.known({}, "/mcp") is None
    assert (await guard.whose(OTHER), await guard.whose("x")) == ("ann", None)
    open_one, locked = GatewayConfig(), GatewayConfig(users={"ann": OTHER})
    assert Guard(open_one, PEOPLE, ISSUERS).known({b"authorization": header.encode()}, "/mcp") is ANYONE
    assert Guard(locked, PEOPLE, ISSUERS).known({b"authorization": b"Bearer "}, "/mcp") is None


OPEN, ANYBODY = GatewayConfig(), GatewayConfig(allow_anonymous=True)
REACHED = GatewayConfig(allow_anonymous=True, host="0.0.0.0")


@pytest.mark.parametrize(
    ("gateway", "people", "issuers", "knows", "wants"),
    [
        (OPEN, PEOPLE, ISSUERS, False, False),
        (GatewayConfig(token=TOKEN), PEOPLE, ISSUERS, True, True),
        (GatewayConfig(token=TOKEN, allow_anonymous=True), PEOPLE, ISSUERS, True, True),
        (OPEN, somebody(), ISSUERS, True, True),
        (OPEN, PEOPLE, SOME_ISSUER, True, True),
        (ANYBODY, somebody(), ISSUERS, True, False),
        (ANYBODY, PEOPLE, SOME_ISSUER, True, False),
        (REACHED, somebody(), ISSUERS, True, True),
    ],
)
def test_who_comes_without_a_key_is_let_in_or_not(
    gateway: GatewayConfig, people: People, issuers: Issuers, *, knows: bool, wants: bool
) -> None:
    guard = Guard(gateway, people, issuers)

    assert (guard.knows_keys, guard.wants_key) == (knows, wants)
    assert guard.known({}, "/mcp") is (None if wants else ANYONE)


@pytest.mark.parametrize("people", [PEOPLE, somebody()])
@pytest.mark.parametrize("issuers", [ISSUERS, SOME_ISSUER])
def test_unknown_names_are_served_where_some_key_keeps_others_out(people: People, issuers: Issuers) -> None:
    guard = Guard(GatewayConfig(host="0.0.0.0"), people, issuers)

    assert status_of(guard, host="a.name.of.ours") == (200 if people.anybody or issuers else 421)


async def test_what_is_no_bearer_token_is_nobodys_whatever_stands_in_it() -> None:
    guard = Guard(GatewayConfig(token=TOKEN), somebody(), SOME_ISSUER)
    odd = {b"authorization": b"Basic " + TOKEN.encode()}

    assert guard.known(odd, "/mcp") is None
    assert await guard.admit(odd, "/mcp") is None


async def test_a_token_of_three_parts_is_the_issuers_to_judge_and_others_are_not() -> None:
    guard = Guard(OPEN, PEOPLE, SOME_ISSUER)

    with pytest.raises(TokenRefusedError):
        await guard.admit({b"authorization": b"Bearer  a.b.c "}, "/mcp")
    for token in (b"a.b", b"a.b.c.d", b"abc"):
        assert await guard.admit({b"authorization": b"Bearer " + token}, "/mcp") is None
    closed = Guard(GatewayConfig(token=TOKEN), PEOPLE, ISSUERS)
    assert await closed.admit({b"authorization": b"Bearer a.b.c"}, "/mcp") is None


async def test_a_key_that_is_remembered_counts_at_its_own_places_alone() -> None:
    people = somebody()
    vars(people)["_admitted"][hashlib.sha256(b"a-key").digest()] = Admission(EVERYONE, places=frozenset({"/mcp"}))
    guard = Guard(OPEN, people, ISSUERS)
    headers = {b"authorization": b"Bearer a-key"}

    assert guard.known(headers, "/mcp") is not None
    assert guard.known(headers, "/api/v1") is None


def test_the_key_of_who_runs_the_gateway_lets_in_everywhere() -> None:
    guard = Guard(GatewayConfig(users={"ann": OTHER}), PEOPLE, ISSUERS)
    headers = {b"authorization": b"Bearer " + guard.key.encode()}

    found = guard.known(headers, "/anywhere")

    assert found is not None
    assert found.scope is EVERYONE
    assert guard.is_local(headers)


async def test_only_what_is_called_a_bearer_token_is_shown_to_those_who_judge_tokens() -> None:
    guard = Guard(GatewayConfig(token=TOKEN), PEOPLE, SOME_ISSUER)

    assert await guard.admit({b"authorization": b"Basic a.b.c"}, "/mcp") is None
    for header in (b"Bearer a.b.c", b"bEARER a.b.c"):
        with pytest.raises(TokenRefusedError):
            await guard.admit({b"authorization": header}, "/mcp")


def test_where_any_origin_may_come_the_host_must_be_ours_all_the_same() -> None:
    guard = Guard(GatewayConfig(), PEOPLE, ISSUERS)
    guard.check(request(host="localhost", origin="https://evil.example"), any_origin=True)

    with pytest.raises(RefusedError) as refused:
        guard.check(request(host="evil.example", origin="https://evil.example"), any_origin=True)
    assert refused.value.status == 421
