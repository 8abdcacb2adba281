"""Values of an example that nobody replaced, such as YOUR_API_KEY."""

from __future__ import annotations

import re

from trunkline.config.options import ServerSpec

_PLACEHOLDER = re.compile(
    r"""<[^<>]+>                                        # <token>
    | \[(?:your|insert|api)[^\]]*\]                     # [your token]
    | \{\{?[\w\s-]+\}?\}                                # {{token}}
    | (?:[\w-]*[_-])?your[_-][\w-]+                     # YOUR_API_KEY, sk-your-key
    | my[_-](?:api[_-]?)?(?:key|token|secret)
    | (?:insert|replace|put|enter|paste|add)[_\s-](?:me|your|here|with|this|api|the|token|key)[\w\s-]*
    | (?:api[_-]?)?(?:key|token|secret)[_-](?:goes[_-])?here
    | change[_-]?me | todo | tbd | fixme | placeholder | dummy
    | (?:[\w]+[_-])?x{4,} | \*{3,} | \.{3} | …
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PATH = re.compile(r"/(?:absolute/)?path/to/|/Users/(?:your-?)?user-?name/|/home/(?:your-?)?user-?name/", re.IGNORECASE)
_MARKED = re.compile(r"<[^<>]+>|(?:[\w-]*[_-])?your[_-][\w-]+", re.IGNORECASE)
"""What cannot be meant in an argument either, where words may be anything."""


def placeholders(spec: ServerSpec) -> list[str]:
    """Where placeholders were left, by name and never by value."""
    found = [f"the variable {key}" for key, value in spec.env.items() if is_placeholder(value)]
    found += [f"the header {key}" for key, value in spec.headers.items() if is_placeholder(value)]
    found += [
        f"argument {number}"
        for number, word in enumerate(spec.args, 1)
        if _MARKED.fullmatch(word.rpartition("=")[2]) or _PATH.match(word)
    ]
    if re.search(r"<[^<>/]+>|\byour[-_](?:host|domain|server|company)\b", spec.url, re.IGNORECASE):
        found.append("the url")
    return found


def is_placeholder(value: str) -> bool:
    """Whether a value is one that stands for another."""
    text = re.sub(r"^(?:Bearer|Basic|Token)\s+", "", value.strip(), flags=re.IGNORECASE).strip("\"'")
    return bool(_PLACEHOLDER.fullmatch(text) or _PATH.match(text))
