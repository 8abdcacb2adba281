"""From a manifest to a server: what must be asked, and exactly what would be started or reached."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote, urlsplit

from trunkline.config.server import ServerSpec
from trunkline.errors import ManifestError
from trunkline.install.manifests.environment import Value, resolve
from trunkline.install.manifests.manifest import Argument, Manifest, Package, Remote, Variable, names_in, substitute
from trunkline.install.manifests.runtimes import notes_on, runtime_of, start_of

Answers = Mapping[str, str | Sequence[str]]
"""By the names of `questions`; a text may refer to `${secret:NAME}` or `${env:NAME}`."""
_ENV_FLAGS = ("-e", "--env")
"""Flags of `docker run` that hand over a variable; ours does it by name, so that the value is in no argument."""


def choose(manifest: Manifest, wanted: str = "") -> Package | Remote:
    """The first package that can be started, or else the first remote; or that which is wanted, by number or name.

    ManifestError says why, when there is none.
    """
    reasons: list[str] = []
    for number, option in enumerate((*manifest.packages, *manifest.remotes), 1):
        if wanted and wanted not in _names(option, number):
            continue
        try:
            _check(option, manifest)
        except ManifestError as error:
            reasons.append(str(error))
        else:
            return option
    if not reasons:
        what = f"offers nothing called {wanted!r}" if wanted else "has neither packages nor remotes"
        raise ManifestError(f"The manifest of {manifest.name!r} {what}.")
    raise ManifestError(f"Nothing that {manifest.name!r} offers can be used. {' '.join(dict.fromkeys(reasons))}")


def questions(manifest: Manifest, choice: Package | Remote | None = None) -> list[Variable]:
    """What a person must be asked, each name once: arguments, then variables; or parts of the URL, then headers."""
    found: dict[str, Variable] = {}
    for variable in _inputs(choice or choose(manifest)):
        for wanted in _asked(variable):
            known = found.get(wanted.name)
            found[wanted.name] = _stricter(known, wanted) if known else wanted
    return list(found.values())


def plan(manifest: Manifest, answers: Answers, *, package: Package | Remote | None = None) -> ServerSpec:
    """The server that a manifest describes, with these answers; nothing is started.

    ManifestError names all answers that are missing, wrong or unknown.
    """
    choice = package or choose(manifest)
    _check(choice, manifest)
    wanted = questions(manifest, choice)
    unknown = [name for name in answers if name not in {variable.name for variable in wanted}]
    if unknown:
        known = ", ".join(variable.name for variable in wanted) or "nothing"
        raise ManifestError(f"{manifest.name!r} does not ask for {', '.join(unknown)}.", hint=f"It asks for: {known}.")
    return build(manifest, choice, resolve(wanted, overrides=answers).checked())


def build(manifest: Manifest, choice: Package | Remote, values: Mapping[str, Value]) -> ServerSpec:
    """The server with values that were checked before, as by `resolve`."""
    if isinstance(choice, Remote):
        return _remote(manifest, choice, values)
    return _package(manifest, choice, values)


def exposed(choice: Package | Remote) -> frozenset[str]:
    """The questions whose answers others can read, as they stand in arguments or in an address."""
    if isinstance(choice, Remote):
        return frozenset(names_in(choice.url))
    runtime_arguments: Sequence[Argument] = choice.runtime_arguments
    if runtime_of(choice) == "docker":
        runtime_arguments = _split_environment(runtime_arguments, {})[0]
    arguments = (*runtime_arguments, *choice.package_arguments)
    return frozenset(variable.name for argument in arguments for variable in _asked(argument.input))


def notes(choice: Package | Remote) -> list[str]:
    """What a person should know before agreeing to it."""
    return notes_on(choice) if isinstance(choice, Package) else []


def _package(manifest: Manifest, package: Package, values: Mapping[str, Value]) -> ServerSpec:
    env = {variable.name: text for variable in package.environment for text in _written(variable, values)}
    runtime_arguments: Sequence[Argument] = package.runtime_arguments
    handed: list[str] = []
    if runtime_of(package) == "docker":
        runtime_arguments, more, names = _split_environment(runtime_arguments, values)
        env |= more
        handed = [word for name in dict.fromkeys((*env, *names)) for word in ("-e", name)]
    start = start_of(package, _write_arguments(runtime_arguments, values), manifest.folder)
    rest = _write_arguments(package.package_arguments, values)
    argv = [*start.before, *handed, *start.runtime_words, *start.subject, *rest]
    for name, text in env.items():
        if "\0" in text:
            raise ManifestError(f"{name} holds a zero byte.")
    return ServerSpec(manifest.server_name, argv[0], tuple(argv[1:]), env, start.cwd)


def _remote(manifest: Manifest, remote: Remote, values: Mapping[str, Value]) -> ServerSpec:
    headers = {variable.name: text for variable in remote.headers for text in _written(variable, values)}
    for name, text in headers.items():
        if re.search(r"[\x00-\x1f\x7f]", text):
            raise ManifestError(f"The header {name} holds a character that headers cannot.")
    transport = "sse" if remote.transport == "sse" else "http"
    return ServerSpec(manifest.server_name, url=_url(remote, values), headers=headers, transport=transport)


def _url(remote: Remote, values: Mapping[str, Value]) -> str:
    """The address with its variables put in; one in the middle cannot change where it leads."""
    found: dict[str, str] = {}
    for name in names_in(remote.url):
        value = values.get(name)
        if not isinstance(value, str):
            raise ManifestError(f"The address {remote.shown} needs a value for {name}.")
        begins = remote.url.startswith(f"{{{name}}}")
        found[name] = value if begins or "${" in value else quote(value, safe="")
    url = substitute(remote.url, found)
    if not re.match(r"https?://[^/\s?#]+", url) or re.search(r"[\s\x00-\x1f]", url):
        raise ManifestError(f"The address {remote.shown} is not one of the web.")
    host = urlsplit(url).netloc
    if "%" in host or "@" in host:
        raise ManifestError(f"The address {remote.shown} would have an odd host.", hint="Use letters, digits and dots.")
    return url


def _check(option: Package | Remote, manifest: Manifest) -> None:
    """ManifestError when nothing can be done with it, whatever the answers are."""
    _refuse_references(option)
    if isinstance(option, Remote):
        if option.transport == "stdio":
            raise ManifestError(f"The remote {option.shown} cannot be reached by stdio.")
        used = set(names_in(option.url))
        if any(variable.secret for variable in option.variables if variable.name in used):
            raise ManifestError(
                f"The address {option.shown} would hold a secret, and addresses are logged.",
                hint="Send it as a header, if the server takes one.",
            )
        undefined = used - {variable.name for variable in option.variables}
        if undefined:
            raise ManifestError(f"The address {option.shown} names {min(undefined)!r}, which nothing defines.")
        return
    if option.transport != "stdio":
        raise ManifestError(
            f"{option.shown!r} is started here, but reached by {option.transport}.",
            hint="Start it yourself, and add its address: trunkline add NAME URL.",
        )
    docker = runtime_of(option) == "docker"
    for argument in (*option.runtime_arguments, *option.package_arguments):
        if not (docker and argument in option.runtime_arguments and argument.flag in _ENV_FLAGS):
            _refuse_secret(argument)
    for variable in option.environment:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable.name):
            raise ManifestError(f"{variable.name!r} cannot be an environment variable.")
    start_of(option, _fixed_words(option, docker), manifest.folder)


def _fixed_words(package: Package, docker: bool) -> list[str]:
    """The arguments of the runtime that need no answers."""
    arguments: Sequence[Argument] = package.runtime_arguments
    if docker:
        arguments = _split_environment(arguments, {})[0]
    return _write_arguments([one for one in arguments if not _asked(one.input)], {})


def _refuse_references(option: Package | Remote) -> None:
    """A manifest must not name variables or secrets of the person who adds it: they would be sent to its author."""
    texts: list[str] = []
    for variable in _inputs(option):
        for one in (variable, *variable.variables):
            texts += [one.value, one.default, *one.choices]
    if isinstance(option, Package):
        texts += [*option.command, option.identifier, option.version]
    else:
        texts.append(option.url)
    if any("${" in text for text in texts):
        raise ManifestError(f"{option.shown!r} refers to variables of yours, such as ${{env:NAME}}.")


def _inputs(choice: Package | Remote) -> tuple[Variable, ...]:
    if isinstance(choice, Remote):
        used = set(names_in(choice.url))
        parts = [variable for variable in choice.variables if variable.name in used]
        return (*(_needed(variable) for variable in parts), *choice.headers)
    arguments = (*choice.runtime_arguments, *choice.package_arguments)
    return (*(argument.input for argument in arguments), *choice.environment)


def _needed(variable: Variable) -> Variable:
    """An address cannot be left open in the middle."""
    return replace(variable, required=True)


def _stricter(known: Variable, other: Variable) -> Variable:
    """Two that share a name share an answer: it must satisfy both."""
    return replace(known, required=known.required or other.required, secret=known.secret or other.secret)


def _names(option: Package | Remote, number: int) -> tuple[str, ...]:
    if isinstance(option, Remote):
        return str(number), "remote", option.transport, option.url
    return str(number), option.registry, option.runtime, option.identifier, option.label


def _asked(variable: Variable) -> tuple[Variable, ...]:
    """What must be known to write it down: itself, or what its fixed value names."""
    if variable.value:
        return variable.used
    return () if _is_switch(variable) else (variable,)


def _is_switch(variable: Variable) -> bool:
    """Whether it is a flag that stands alone: a named argument about which a manifest says nothing else."""
    plain = Variable(variable.name, variable.description, repeated=variable.repeated)
    return variable.name.startswith("-") and variable == plain


def _written(variable: Variable, values: Mapping[str, Value]) -> list[str]:
    """A variable's texts; none when it, or something that its value names, was left open."""
    if not variable.value:
        value = values.get(variable.name, ())
        return [value] if isinstance(value, str) else list(value)
    parts = {inner.name: _several(values.get(inner.name, ())) for inner in variable.used}
    if not parts:
        return [variable.value]
    most = max(len(texts) for texts in parts.values())
    uneven = [name for name, texts in parts.items() if len(texts) not in (0, 1, most)]
    if uneven:
        raise ManifestError(f"{variable.name} needs as many values of {uneven[0]} as of the others.")
    if not all(parts.values()):
        return []
    return [
        substitute(variable.value, {name: texts[min(at, len(texts) - 1)] for name, texts in parts.items()})
        for at in range(most)
    ]


def _write_arguments(arguments: Iterable[Argument], values: Mapping[str, Value]) -> list[str]:
    """The words of arguments. A named one is `--flag=value`, so that no value can pass for another flag."""
    words: list[str] = []
    for argument in arguments:
        _refuse_secret(argument)
        words += _write(argument, values)
    return words


def _split_environment(
    arguments: Iterable[Argument], values: Mapping[str, Value]
) -> tuple[list[Argument], dict[str, str], list[str]]:
    """Take `-e NAME=value` out of arguments of `docker run`: what is left, the variables, the names to hand over."""
    left: list[Argument] = []
    variables: dict[str, str] = {}
    names: list[str] = []
    for argument in arguments:
        name, given, _ = argument.input.value.partition("=")
        if argument.flag not in _ENV_FLAGS or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            left.append(argument)
            continue
        texts = [text.partition("=")[2] for text in _written(argument.input, values)] if given else []
        if texts:
            variables[name] = texts[-1]
        if texts or not given:
            names.append(name)
    return left, variables, names


def _refuse_secret(argument: Argument) -> None:
    """ManifestError for an argument that would hold a secret."""
    if argument.input.secret or any(variable.secret for variable in argument.input.used):
        raise _shows(argument.flag or argument.input.name)


def _write(argument: Argument, values: Mapping[str, Value]) -> list[str]:
    flag, given = argument.flag, argument.input
    if flag and _is_switch(given):
        return [flag]
    if flag and given.format == "boolean" and not given.value:
        return [flag] if "true" in _written(given, values) else []
    words: list[str] = []
    for text in _written(given, values):
        if "${secret" in text:
            raise _shows(flag or given.name)
        if flag.startswith("--"):
            words.append(f"{flag}={text}")
            continue
        _refuse_option(given, text)
        words += [flag, text] if flag else [text]
    return words


def _refuse_option(given: Variable, text: str) -> None:
    """What the manifest itself fixes may be an option; what somebody answered may not."""
    if not text.startswith("-") or given.value.startswith("-"):
        return
    if given.format == "number" and not given.value:
        return
    raise ManifestError(
        f"The value of {given.name} begins with a dash, and would be taken for an option.",
        hint="For a file, write ./ before it.",
    )


def _shows(name: str) -> ManifestError:
    return ManifestError(
        f"The argument {name} would hold a secret, and everyone on the machine can read a program's arguments.",
        hint="Give it as an environment variable, if the program takes one.",
    )


def _several(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value
