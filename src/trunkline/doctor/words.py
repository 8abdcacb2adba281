"""What a program's last words mean: package managers, interpreters and Docker say in many ways what is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trunkline.clients.secret import HIDDEN, hidden
from trunkline.config.server import ServerSpec
from trunkline.doctor.finding import Finding
from trunkline.untrusted import printable

SHOWN_LINES = 4
SHOWN_LETTERS = 200


@dataclass(frozen=True)
class _Meaning:
    code: str
    pattern: re.Pattern[str]
    seen: str
    advice: str


def _meaning(code: str, seen: str, advice: str, *patterns: str) -> _Meaning:
    return _Meaning(code, re.compile("|".join(patterns), re.IGNORECASE), seen, advice)


_MEANINGS = (
    _meaning(
        "TL212",
        "Docker's daemon does not answer.",
        "Start Docker (Docker Desktop, or `sudo systemctl start docker`), and see that `docker ps` works for you.",
        r"cannot connect to the docker daemon",
        r"is the docker daemon running",
        r"permission denied while trying to connect to the docker",
        r"error during connect:.*docker",
        r"failed to connect to the docker API",
    ),
    _meaning(
        "TL210",
        "what runs it is too old.",
        "Install a newer one. With uv you can name it: `uvx --python 3.12 …`; with nvm: `nvm install --lts`.",
        r"unsupported engine",
        r"the engine \"?node\"? is incompatible",
        r"requires node(?:\.js)?\s*(?:version\s*)?[>v^\d]",
        r"node(?:\.js)? (?:version )?v?[\d.]+ is not supported",
        r"(?:please )?(?:upgrade|update)(?: to)? (?:node|python)",
        r"requires (?:a different )?python",
        r"does not satisfy python\s*[><=~]",
        r"requires-python",
        r"python [\d.]+ or (?:newer|later|higher|above) is required",
        r"ReferenceError: (?:fetch|File|FormData|Headers|Request|Response|ReadableStream|WebSocket|structuredClone"
        r"|crypto) is not defined",
        r"ERR_UNKNOWN_BUILTIN_MODULE",
        r"No such built-in module: node:",
        r"SyntaxError: Unexpected token '?(?:\?\?=|\?\.|\?|\|\|=|with)",
        r"SyntaxError: Unexpected reserved word",
        r"cannot import name '\w+' from 'typing'",
        r"unsupported operand type\(s\) for \|: 'type'",
    ),
    _meaning(
        "TL213",
        "it cannot fetch its package.",
        "Look at the network, a proxy (HTTPS_PROXY in its `env`) and mirrors; then run it once by hand.",
        r"npm (?:err!?|error) (?:network|code (?:ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONN\w+|ENETUNREACH|SELF_SIGNED\w+))",
        r"failed to fetch:",
        r"error sending request for url",
        r"docker: .*dial tcp: lookup",
    ),
    _meaning(
        "TL205",
        "its index has no such package.",
        "Look up the name: its README says how it is called. Mind the scope (`@owner/name`) and the version.",
        r"npm (?:err!?|error) (?:code E404|404\b)",
        r"is not in this registry",
        r"npm (?:err!?|error) code ETARGET",
        r"no matching version found",
        r"could not determine executable to run",
        r"was not found in the package registry",
        r"no solution found when resolving",
        r"there (?:is|are) no versions? of ",
        r"no matching distribution found",
        r"could not find a version that satisfies",
        r"is not provided by package",
        r"pull access denied",
        r"manifest (?:unknown|for .* not found)",
        r"repository does not exist",
    ),
    _meaning(
        "TL203",
        "it was told of a file that is not there.",
        "Write the full path of the file in its `args`, or the folder as `cwd`.",
        r"can't open file '[^']+': \[Errno 2\]",
        r"Cannot find module '/[^']+'(?=[\s\S]*requireStack: \[\])",
        r"Unable to access jarfile",
        r"Module not found \"file:",
    ),
    _meaning(
        "TL211",
        "something that it needs is not installed.",
        "Install what it names: `pip install …` into its environment, or `npm install` in its folder.",
        r"ModuleNotFoundError: No module named",
        r"ImportError: ",
        r"No module named \S+$",
        r"Cannot find (?:module|package) '",
        r"ERR_MODULE_NOT_FOUND",
        r"error while loading \w+ libraries",
        r"NoClassDefFoundError|ClassNotFoundException",
        r"cannot load such file -- ",
    ),
)

_DOWNLOADING = re.compile(
    r"\b(?:(?:resolved|prepared|installed) \d+ packages|unable to find image|pulling (?:from|fs layer)|pull complete"
    r"|npm http fetch|npm warn deprecated|need to install the following)\b"
    r"|\bDownload(?:ing|ed) \S+ \([\d.]+ ?[KMG]i?B\)",
    re.IGNORECASE,
)
_LIKE_DOWNLOADING = re.compile(r"\b(?:download|fetch|install|build|extract|pull)(?:ing|ed)\b", re.IGNORECASE)
"""Words that a server may use for its own work as well."""
_LISTENS = re.compile(
    r"\b(?:listening|running|started|available|serving)\b.{0,60}?\b(?:port\s*:?\s*\d{2,5}|https?://\S+|\S+:\d{2,5})"
    r"|Uvicorn running on",
    re.IGNORECASE,
)
_CHATTER = re.compile(r"npm (?:warn|notice)\b", re.IGNORECASE)
"""What npm says of itself, whatever happens."""
_URL = re.compile(r"https?://[^\s'\"<>)\]]+")
_TOKENS = re.compile(
    r"\b(?:Bearer|Basic)\s+[\w.~+/=-]{6,}|\b(?:sk|pk|rk|gh[opsu]|xox[abeprs]|glpat|github_pat)[-_][\w-]{6,}"
    r"|\beyJ[\w-]{10,}[\w.-]*|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)


_ERROR = re.compile(r"^(?:Uncaught )?[\w.]*(?:Error|Exception|Exit|Interrupt|Invalid|panic)\w*(?: \[\w+\])?: .*\S")
_CAUSE = re.compile(r"^\s*\[cause\]: (.*\S)")
_NAME = r"[\"'`]?([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])[\"'`]?"
_UNSET = re.compile(
    r"^KeyError: '([A-Z][A-Z0-9_]{2,})'$"
    rf"|\b(?i:missing|required?|requires|set|provide|define|specify|needs?|no)\b[^.\n]{{0,60}}?(?<![\w/]){_NAME}(?![\w/])"
    rf"|(?<![\w/]){_NAME}(?![\w/])[^.\n]{{0,40}}?\b(?:missing|required|undefined|unset|not set"
    r"|(?:is|was|are|be|been) (?:not |un)?(?:set|defined|provided|found|configured|empty))\b",
    re.MULTILINE,
)
"""A variable that a program misses, by the ways in which programs say so."""
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL|PAT$")


def cause_of(text: str) -> str:
    """The line of a Python or Node error that says what was wrong, and its cause; not where, nor what threw it."""
    lines = text.splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    causes = [found[1] for line in lines if (found := _CAUSE.match(line))]
    return "\n".join([*errors[-1:], *causes[-1:]])


def missing_variable(text: str, spec: ServerSpec) -> Finding | None:
    """The variable that a program wanted and did not get, with how to give it."""
    for found in _UNSET.finditer(text):
        name = next(filter(None, found.groups()))
        if name in spec.env:
            continue
        start = text.rfind("\n", 0, found.start()) + 1
        line = text[start:].partition("\n")[0]
        secret = bool(_SECRET_NAME.search(name))
        value = f"${{secret:{spec.name}.{name}}}" if secret else "…"
        where = f"under [servers.{spec.name}]: no other variable of yours is passed on."
        advice = f'Write env = {{ {name} = "{value}" }} {where}'
        command = f"trunkline secret set {spec.name}.{name}" if secret else ""
        seen = f"it wants the variable {name}. It said: {excerpt(cause_of(text) or line, spec)}"
        return Finding("TL214", seen, advice, server=spec.name, command=command)
    return None


def meaning_of(text: str, spec: ServerSpec) -> Finding | None:
    """What the words of a program that failed say, if they say anything that is known."""
    for meaning in _MEANINGS:
        found = meaning.pattern.search(text)
        if found:
            start = text.rfind("\n", 0, found.start()) + 1
            line = text[start:].partition("\n")[0]
            if line.lstrip().startswith("throw "):
                line = cause_of(text) or line
            seen = f"{meaning.seen} It said: {excerpt(line, spec)}"
            return Finding(meaning.code, seen, meaning.advice, server=spec.name)
    return missing_variable(text, spec)


def finding_of(code: str, seen: str, advice: str, spec: ServerSpec) -> Finding:
    """What was found of a server, in words that may hold some of its own."""
    return Finding(code, without_secrets(seen, spec), advice, server=spec.name)


def is_downloading(text: str, *, runner: bool) -> bool:
    """Whether the last of these words are those of something that is being fetched; a `runner` may well do that."""
    lines = [line for line in text.splitlines() if line.strip()][-5:]
    return any(_DOWNLOADING.search(line) or (runner and _LIKE_DOWNLOADING.search(line)) for line in lines)


def listens(text: str) -> bool:
    """Whether the program says that it waits for HTTP."""
    return bool(_LISTENS.search(text))


def without_chatter(text: str) -> str:
    """What a program said, without what its package manager says of itself."""
    return "\n".join(line for line in text.splitlines() if line.strip() and not _CHATTER.match(line))


def excerpt(text: str, spec: ServerSpec) -> str:
    """The end of what a program said, in one line: safe to print, without the secrets we know of."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    said = " / ".join(lines[-SHOWN_LINES:])
    return shorten(without_secrets(said, spec))


def shorten(text: str) -> str:
    """The beginning and the end of a long text."""
    half = SHOWN_LETTERS // 2
    return text if len(text) <= SHOWN_LETTERS else f"{text[:half]} … {text[-half:]}"


def without_secrets(text: str, spec: ServerSpec) -> str:
    """Foreign words with everything hidden that was given to the server, or looks like a secret."""
    return scrubbed(spec.without_secrets(text), spec)


def scrubbed(text: str, spec: ServerSpec) -> str:
    """Our own words about a server, without what is called or looks like a secret."""
    # A very short word stands everywhere: to hide it would hide the sense.
    given = (*spec.command.split(), *spec.args)
    words = [word if len(word) >= 4 or word.startswith("-") else "\0" for word in given]
    text = hidden(text, [{"args": words, "env": dict(spec.env), "headers": dict(spec.headers)}])
    text = _URL.sub(lambda found: found[0].partition("?")[0], text)
    return printable(_TOKENS.sub(HIDDEN, text))
