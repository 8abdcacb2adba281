"""Values that stand for others: what a template or a guide has where a person's own secret belongs."""

from __future__ import annotations

import re

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
PATH = re.compile(r"/(?:absolute/)?path/to/|/Users/(?:your-?)?user-?name/|/home/(?:your-?)?user-?name/", re.IGNORECASE)
"""A path that no machine has."""
_GUESSED = re.compile(
    r"change[\s_-]?(?:me|this|it)|replace[\s_-]|\byour[\s_-]|placeholder|passw[o0]rd|letmein|example|default|insert[\s_-]",
    re.IGNORECASE,
)


def is_placeholder(value: str) -> bool:
    """Whether a value is one that stands for another."""
    text = re.sub(r"^(?:Bearer|Basic|Token)\s+", "", value.strip(), flags=re.IGNORECASE).strip("\"'")
    return bool(_PLACEHOLDER.fullmatch(text) or PATH.match(text))


def is_guessed(token: str) -> bool:
    """Whether a token that is ours to be kept is one that a template had, or that anybody would try."""
    return is_placeholder(token) or bool(_GUESSED.search(token)) or len(set(token)) < 8 or token.split() != [token]
