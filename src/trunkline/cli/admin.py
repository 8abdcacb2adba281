"""What commands ask of whoever has the people, keys and threads: the running gateway, or the store where none runs."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from trunkline.cli.main import Commands
from trunkline.cli.open import config_to_look_at, run, running_gateway
from trunkline.config.options import Config
from trunkline.errors import ConfigError, RefusedError

if TYPE_CHECKING:
    from trunkline.tenancy.servers import Registration
    from trunkline.tenancy.tenancy import Tenancy

T = TypeVar("T")
Json = dict[str, Any]
PAGE = 1000


class Admin:
    """Asks what the admin API answers, in its words, as the operator of this home."""

    def __init__(self, config: Config, request: Callable[..., Awaitable[Json]]) -> None:
        self.config, self._request = config, request

    async def ask(self, method: str, *path: str, body: Json | None = None, version: int = 0, **query: Any) -> Json:
        """One answer. Raises what the API refuses as our errors."""
        try:
            asked = urlencode({name: value for name, value in query.items() if value is not None})
            where = "/".join(quote(part, safe="") for part in path)
            json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ConfigError("What was typed is no text: it has bytes that are not UTF-8.") from None
        return await self._request(method, f"{where}?{asked}" if asked else where, body, version)

    async def all(self, noun: str, **query: Any) -> list[Json]:
        """Everything of a kind, page by page."""
        found: list[Json] = []
        told: Json = {"cursor": None}
        while "cursor" in told:
            told = await self.ask("GET", noun, limit=PAGE, cursor=told["cursor"], **query)
            found += told[noun]
        return found

    async def all_of(self, noun: str, user: str | None) -> list[Json]:
        """The same of one user, who is there."""
        await self.check_user(user)
        return await self.all(noun, user=user)

    async def servers(self, user: str) -> list[Json]:
        """The servers that were registered for a user, or for everybody."""
        whose: Json = {"user": user} if user else {"scope": "app"}
        return (await self.ask("GET", "servers", **whose))["servers"]

    async def check_user(self, name: str | None) -> None:
        """`NotFoundError` for a name that nobody has: what is meant for nobody would be lost."""
        if name and name not in self.config.gateway.users:
            await self.ask("GET", "users", name)


@asynccontextmanager
async def open_admin(options: argparse.Namespace) -> AsyncGenerator[Admin]:
    """The running gateway of this configuration; or the store, where none runs, or where one is named."""
    config = config_of(options)
    running = None if options.store else running_gateway(config)
    if running is not None:

        async def request(method: str, path: str, body: Json | None, version: int) -> Json:
            return running.request(method, path, body, version=version)

        yield Admin(config, request)
        return
    from trunkline.tenancy.tenancy import open_tenancy

    async with open_tenancy(config.store, config.home) as tenancy:
        # Whose configuration a store is used with that was named, nobody here can tell.
        yield Admin(config, _Stored(tenancy, config, elsewhere=bool(options.store)).request)


def config_of(options: argparse.Namespace) -> Config:
    """The configuration of a command, with the store that it names."""
    config = config_to_look_at(options)
    if options.store:
        config = dataclasses.replace(config, store=dataclasses.replace(config.store, url=options.store))
    return config


def administer(options: argparse.Namespace, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Do something with whoever has the people."""

    async def do() -> T:
        async with open_admin(options) as admin:
            return await work(admin)

    return run(do)


class _Stored:
    """The routes of the admin API over a store that this process opened itself."""

    def __init__(self, tenancy: Tenancy, config: Config, *, elsewhere: bool) -> None:
        from trunkline.gateway.api import people, threads
        from trunkline.gateway.api.routes import Api, Route
        from trunkline.gateway.api.servers import WantedServer

        self._tenancy, self._config, self._elsewhere = tenancy, config, elsewhere
        whose = ("scope", "user")
        self._api = Api(
            [
                *people.routes(tenancy.people, self._known),
                *threads.routes(tenancy.threads, lambda: config),
                Route("GET", "servers", "", self._servers, query=whose),
                Route("POST", "servers", "", self._register, WantedServer),
                Route("DELETE", "servers/{name}", "", self._unregister, query=whose),
            ]
        )

    async def request(self, method: str, path: str, body: Json | None, version: int) -> Json:
        """What the gateway would answer."""
        import msgspec

        from trunkline.gateway.api.routes import Ask
        from trunkline.identity import Scope

        where, _, query = path.partition("?")
        route, names = self._api.find(method, where)
        try:
            read = msgspec.convert(body, route.body) if route.body is not None else None
        except msgspec.ValidationError as error:
            raise RefusedError(f"The body does not fit: {error}.", status=422) from None
        given = await route.run(Ask(Scope(), names, dict(parse_qsl(query, keep_blank_values=True)), read, version))
        return msgspec.to_builtins(given.body) or {}

    async def _known(self, user: str) -> Any:
        from trunkline.gateway.api.people import KnownNames
        from trunkline.identity import unit_name

        if self._elsewhere:
            return KnownNames()
        registered = [one for owner in ("", user) for one in await self._tenancy.servers.of(owner)]
        names = {unit_name(one.spec.name) for one in registered}
        return KnownNames(self._config.profiles, {*self._config.servers, *self._config.groups, *names})

    async def _servers(self, ask: Any) -> Any:
        from trunkline.gateway.api.routes import Given
        from trunkline.gateway.api.servers import shown

        return Given({"servers": [shown(one) for one in await self._tenancy.servers.of(ask.query.get("user", ""))]})

    async def _register(self, ask: Any) -> Any:
        from trunkline.gateway.api.routes import Given
        from trunkline.gateway.api.servers import shown, written

        user, taken = ask.body.user, {*self._config.servers, *self._config.groups}
        if not user and ask.body.name in taken:
            raise ConfigError(f"There is a server or a group {ask.body.name!r} in the configuration.")
        most = self._config.limits.servers if user else 0
        of_user = bool(user) and user not in self._config.gateway.users
        made: Registration = await self._tenancy.servers.put(written(ask.body), user=user, most=most, of_user=of_user)
        return Given(shown(made))

    async def _unregister(self, ask: Any) -> Any:
        from trunkline.gateway.api.routes import Given

        await self._tenancy.servers.remove(ask.query.get("user", ""), ask.names["name"])
        return Given()


def with_store(commands: Commands) -> argparse.ArgumentParser:
    """The options that commands about the store have in common."""
    made = argparse.ArgumentParser(add_help=False, parents=[commands.formatted])
    made.add_argument(
        "--store",
        default="",
        metavar="URL",
        help="this store, whatever runs: sqlite:///FILE or postgresql://USER@HOST/DATABASE "
        "(default: as TRUNKLINE_STORE_URL or [store] says, else a file in the home)",
    )
    return made


def listed(text: str) -> list[str]:
    """The words of an option that takes several, with commas between."""
    return [word for word in (part.strip() for part in text.split(",")) if word]


def limit_of(text: str) -> tuple[str, float | None]:
    """A limit as it is typed, `calls_per_hour=100`; `default` for what `[limits]` says."""
    name, _, value = text.partition("=")
    try:
        number = None if value == "default" else float(value)
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no limit: write NAME=NUMBER, such as calls_per_hour=100")
    return name, number


def changed_limits(before: Mapping[str, float], wanted: list[tuple[str, float | None]]) -> dict[str, float]:
    """Limits with those that were typed."""
    after = {**before, **dict(wanted)}
    return {name: most for name, most in after.items() if most is not None}


def shown_limits(limits: Mapping[str, float]) -> str:
    """Limits for people."""
    return ", ".join(f"{name}={most:g}" for name, most in limits.items())
