"""Reads the configuration: a file of ours or of any MCP client, the environment, and the flags."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from trunkline.config import jsonc
from trunkline.config.client_forms import COMMON_KEYS, common_form, is_client_file
from trunkline.config.oauth import OAuthSpec
from trunkline.config.options import HIDDEN_FIELDS, SECTIONS, Config, GroupSpec, ProfileSpec, RegistrySpec, default_home
from trunkline.config.section import expanded, override, refuse_unknown, section_of, table
from trunkline.config.server import ServerSpec
from trunkline.config.tenancy import IssuerSpec, check_issuers
from trunkline.errors import ConfigError
from trunkline.tool import ToolOptions, problem_of

LARGEST_FILE = 64 * 2**20
"""Bytes that a file with servers may have; clients keep much else in theirs."""
MOST_MINIMAL_TOOLS = 1_000
LARGEST_MINIMAL_TOOLS = 2**20
"""Bytes that the tools of one server may have that are given in advance."""


def user_file(env: Mapping[str, str]) -> Path:
    """The configuration of the user, as opposed to that of the folder."""
    base = env.get("XDG_CONFIG_HOME") or str(Path(env.get("HOME", "~")).expanduser() / ".config")
    return Path(base) / "trunkline" / "trunkline.toml"


def find_file(env: Mapping[str, str], folder: Path) -> Path | None:
    """The configuration that is used when none is named."""
    for path in (folder / "trunkline.toml", user_file(env)):
        if path.is_file():
            return path
    return None


def load(path: Path | None, *, env: Mapping[str, str], flags: Mapping[str, Any] | None = None) -> Config:
    """Read a file (or none), then let the environment and then the flags have their say."""
    document = read_document(path) if path else {}
    config = parse(document, env=env)
    overrides = {
        key if "." in key else f"gateway.{key}": value for key, value in (flags or {}).items() if value is not None
    }
    sections = {name: override(getattr(config, name), name, env, overrides) for name in SECTIONS}
    return dataclasses.replace(config, **sections, home=default_home(env), source=path)


def read_document(path: Path) -> dict[str, Any]:
    """A file's content: TOML, or JSON as MCP clients write it."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ConfigError(f"{path} has more than {LARGEST_FILE // 2**20} MiB.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.", hint="Name another with --config.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        return table(jsonc.loads(text), str(path))
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply.") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path} is not valid {path.suffix.lstrip('.').upper() or 'JSON'}: {error}.") from error


def parse(document: Mapping[str, Any], *, env: Mapping[str, str]) -> Config:
    """Make a `Config` of a file's content; unknown keys and wrong types are errors that name them."""
    if is_client_file(document):
        servers = table(document.get("mcpServers", document.get("servers", {})), "mcpServers")
        return Config(servers={name: _client_server(name, table(spec, name), env) for name, spec in servers.items()})
    refuse_unknown(document, (*SECTIONS, "servers", "tools", "groups", "profiles", "registries", "auth"), "the file")
    sections = {name: _section(name, table(document.get(name, {}), name), env) for name in SECTIONS}
    tools = _tools(document.get("tools", {}), "tools")
    servers = {
        name: server_of(name, table(spec, f"servers.{name}"), env, tools)
        for name, spec in table(document.get("servers", {}), "servers").items()
    }
    groups = {
        name: _group(name, table(spec, f"groups.{name}"), servers)
        for name, spec in table(document.get("groups", {}), "groups").items()
    }
    members = [member for group in groups.values() for member in group.servers]
    for member in members:
        if members.count(member) > 1:
            raise ConfigError(f"Server {member!r} is in two groups, or twice in one.", hint="Leave it in one, once.")
    profiles = {
        name: _profile(name, table(spec, f"profiles.{name}"), servers, groups)
        for name, spec in table(document.get("profiles", {}), "profiles").items()
    }
    registries = {
        name: _registry(name, table(spec, f"registries.{name}"), env)
        for name, spec in table(document.get("registries", {}), "registries").items()
    }
    everywhere = {name: section_of(ToolOptions, options, f"tools.{name}") for name, options in tools.items()}
    issuers = _issuers(table(document.get("auth", {}), "auth"), env)
    check_issuers(issuers, profiles, sections["gateway"].users)
    named: dict[str, Any] = {"servers": servers, "groups": groups, "profiles": profiles, "registries": registries}
    return Config(**sections, **named, tools=everywhere, issuers=issuers)


def _section(name: str, values: Mapping[str, Any], env: Mapping[str, str]) -> Any:
    made, problem = expanded(section_of(SECTIONS[name], values, name), env)
    if name == "search" and bool(made.embeddings_url) != bool(made.embeddings_model):
        raise ConfigError(
            "[search]: a service for vectors wants an address and a model.",
            hint="Set `embeddings_url` and `embeddings_model`.",
        )
    if problem:
        raise ConfigError(f"[{name}]: {problem}", hint="Set it, or write the value itself.")
    return made


def _group(name: str, spec: Mapping[str, Any], servers: Mapping[str, ServerSpec]) -> GroupSpec:
    _check_name(name, "group")
    made = dataclasses.replace(section_of(GroupSpec, spec, f"groups.{name}"), name=name)
    if name in servers:
        raise ConfigError(f"{name!r} is a server and a group.", hint="Give the group another name.")
    if not made.servers:
        raise ConfigError(f"Group {name!r} has no servers.", hint='Name some: `servers = ["a", "b"]`.')
    for member in (*made.servers, *made.weights, *made.priorities):
        _check_known(member, servers, f"Group {name!r}")
    for member, weight in made.weights.items():
        if weight < 0:
            raise ConfigError(f"groups.{name}.weights.{member} must be 0 or more.")
    return made


def _profile(
    name: str, spec: Mapping[str, Any], servers: Collection[str], groups: Mapping[str, GroupSpec]
) -> ProfileSpec:
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", name):
        raise ConfigError(
            f"{name!r} cannot be a profile's name.", hint="It is part of an address: use letters, digits and dashes."
        )
    made = dataclasses.replace(section_of(ProfileSpec, spec, f"profiles.{name}"), name=name)
    for server in made.servers:
        _check_known(server, (*servers, *groups), f"Profile {name!r}")
        group = next((group.name for group in groups.values() if server in group.servers), "")
        if group:
            raise ConfigError(f"Profile {name!r} names {server!r}, which is in a group.", hint=f"Name {group!r}.")
    return made


def _registry(name: str, spec: Mapping[str, Any], env: Mapping[str, str]) -> RegistrySpec:
    _check_name(name, "registry")
    made = dataclasses.replace(section_of(RegistrySpec, spec, f"registries.{name}"), name=name)
    if not made.url and name != "official":
        raise ConfigError(f"Registry {name!r} has no address.", hint="Give it a `url`.")
    made, problem = expanded(made, env)
    return dataclasses.replace(made, problem=problem)


def _issuers(auth: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, IssuerSpec]:
    refuse_unknown(auth, ("issuers",), "auth")
    made: dict[str, IssuerSpec] = {}
    for name, spec in table(auth.get("issuers", {}), "auth.issuers").items():
        where = f"auth.issuers.{name}"
        made[name], problem = expanded(
            dataclasses.replace(section_of(IssuerSpec, table(spec, where), where), name=name), env
        )
        if problem:
            raise ConfigError(f"[{where}]: {problem}", hint="Set it, or write the value itself.")
    return made


def _check_known(server: str, servers: Collection[str], who: str) -> None:
    if server not in servers:
        close = difflib.get_close_matches(server, list(servers), 1)
        hint = f"Did you mean {close[0]!r}?" if close else "Give it an entry under [servers]."
        raise ConfigError(f"{who} names {server!r}, which is no server.", hint=hint)


def _check_name(name: str, what: str) -> None:
    if not re.fullmatch(r"[^\s/\\]{1,64}", name):
        raise ConfigError(f"{name!r} cannot be a {what}'s name.", hint="Use 1 to 64 letters, digits, dots or dashes.")


def _client_server(name: str, spec: Mapping[str, Any], env: Mapping[str, str]) -> ServerSpec:
    """A server in a client's file, in which options of ours may stand as well; other keys are left alone."""
    # `timeout` is not ours there: clients write milliseconds or seconds, each in its own way.
    known = {f.name for f in dataclasses.fields(ServerSpec)} - {*HIDDEN_FIELDS, *COMMON_KEYS, "timeout"}
    ours = {key: value for key, value in spec.items() if key in known and value is not None}
    if not ours.get("oauth", {}).keys() <= {f.name for f in dataclasses.fields(OAuthSpec)}:
        del ours["oauth"]  # a client's own word for its own sign-in
    try:
        form = common_form(spec)
    except ValueError as error:
        raise ConfigError(f"servers.{name}: {error}.") from error
    return server_of(name, {**ours, **form}, env)


def _tools(value: Any, where: str) -> dict[str, dict[str, Any]]:
    """What is said of tools, checked."""
    found = {tool: table(options, f"{where}.{tool}") for tool, options in table(value, where).items()}
    for tool, options in found.items():
        problem = problem_of(section_of(ToolOptions, options, f"{where}.{tool}"))
        if problem:
            raise ConfigError(f"{where}.{tool}: {problem}")
    return found


def _check_minimal(spec: ServerSpec) -> None:
    """Refuse tools given in advance that no server could list."""
    seen: set[str] = set()
    for tool in spec.minimal_tools:
        name, schema, description = tool.get("name"), tool.get("inputSchema", {}), tool.get("description", "")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_./-]{1,128}", name):
            hint = "Use 1 to 128 letters, digits, dots, dashes, slashes or underscores."
            raise ConfigError(f"Server {spec.name!r}: a tool of `minimal_tools` has no good `name`.", hint=hint)
        if name in seen:
            raise ConfigError(f"Server {spec.name!r}: `minimal_tools` has {name!r} twice.", hint="Leave one out.")
        if not isinstance(schema, dict) or not isinstance(description, str):
            what = "`inputSchema` must be an object, and `description` a text"
            raise ConfigError(f"Server {spec.name!r}: of {name!r} in `minimal_tools`, {what}.")
        seen.add(name)
    try:
        size = len(msgspec.json.encode(spec.minimal_tools))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ConfigError(f"Server {spec.name!r}: `minimal_tools` must be JSON: {error}.") from None
    if len(seen) > MOST_MINIMAL_TOOLS or size > LARGEST_MINIMAL_TOOLS:
        most = f"{MOST_MINIMAL_TOOLS} tools, of {LARGEST_MINIMAL_TOOLS // 2**20} MiB together"
        raise ConfigError(f"Server {spec.name!r}: `minimal_tools` has more than {most}.")


def server_of(
    name: str,
    spec: Mapping[str, Any],
    env: Mapping[str, str],
    everywhere: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> ServerSpec:
    """A server; what is said of tools of every server holds for its own, and what is said of its own counts more."""
    _check_name(name, "server")
    own = _tools(spec.get("tools", {}), f"servers.{name}.tools")
    tools = {**everywhere, **{tool: {**everywhere.get(tool, {}), **options} for tool, options in own.items()}}
    spec = {**spec, "tools": tools} if tools else spec
    if "oauth" in spec:
        section_of(OAuthSpec, table(spec["oauth"], f"servers.{name}.oauth"), f"servers.{name}.oauth")
    made = dataclasses.replace(section_of(ServerSpec, spec, f"servers.{name}"), name=name)
    if made.oauth.exchanges and not (made.oauth.client_id and (made.oauth.issuer or made.oauth.token_url)):
        # Else the server itself would say who is given callers' tokens.
        hint = "Give `client_id`, and `issuer` or `token_url`."
        raise ConfigError(f"Server {name!r} does not say where callers' tokens are exchanged.", hint=hint)
    if bool(made.command) == bool(made.url):
        what = "no address" if not made.command else "both a command and a URL"
        raise ConfigError(f"Server {name!r} has {what}.", hint="Give it a `command` or a `url`.")
    if made.url and not re.match(r"https?://[^/\s]+", made.url) and "${" not in made.url:
        raise ConfigError(f"The url of server {name!r} is not an http address.")
    if (made.kind == "stdio") != bool(made.command):
        raise ConfigError(f"Server {name!r} cannot be reached by {made.transport!r}.", hint="Leave `transport` out.")
    for option in (
        "timeout", "max_timeout", "start_timeout", "download_timeout", "concurrency", "processes", "answer_limit",
        "max_pages",
    ):  # fmt: skip
        if getattr(made, option) <= 0:
            raise ConfigError(f"servers.{name}.{option} must be more than 0.")
    _check_minimal(made)
    unsendable = _unsendable(made)
    if unsendable:
        raise ConfigError(f"Server {name!r}: {unsendable}", hint="Write it without that character.")
    made, problem = expanded(made, env)
    return dataclasses.replace(made, problem=problem or _unsendable(made))


def _unsendable(spec: ServerSpec) -> str:
    """What no program can be started with, or no request can carry; line ends are well in arguments and variables."""
    for where, text in (("command", spec.command), ("args", "".join(spec.args)), ("cwd", spec.cwd)):
        if "\0" in text:
            return f"a NUL character stands in `{where}`."
    for name, value in spec.env.items():
        if not name or re.search(r"[=\0\r\n]", name):
            return f"{name!r} cannot be the name of a variable in `env`."
        if "\0" in value:
            return f"a NUL character stands in `env.{name}`."
    for name, value in spec.headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            return f"{name!r} cannot be the name of a header."
        if re.search(r"[\0\r\n]", value):
            return f"a line end or NUL character stands in the value of `headers.{name}`."
    if re.search(r"[\0-\x20\x7f]", spec.url):
        return "a space or control character stands in `url`."
    return ""
