"""Signs that a definition is meant to mislead: what it hides, whom it speaks to, and whose tools it speaks of."""

from __future__ import annotations

import re

from trunkline.tools.trust.definition import BIDI, PARTS, UNSEEN, UNSEEN_LETTERS, Definition, Sign
from trunkline.tools.trust.lookalikes import Names, mixes_scripts, plain_name

LONGEST = 2**18
"""Bytes of a definition that is to be looked at: the longest of eight thousand real ones had a sixth of it."""


def poisoning(definition: Definition, server: str, names: Names, *, tool: bool = True) -> list[Sign]:
    """Every sign that a definition is meant to mislead."""
    return [
        *hidden_characters(definition),
        *instructions(definition),
        *(look_alike(definition, server, names) if tool else ()),
        *claims(definition, server, names),
    ]


# What cannot be seen.

_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f")
_MEANT = re.compile(
    f"(?<=[^\x00-\u007f{UNSEEN_LETTERS}])(?:\ufe0f?\u200d|[\u200c\u200e\u200f\ufe0e\ufe0f])(?![{UNSEEN_LETTERS}])"
    "|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)
"""Joiners, marks and selectors as emoji and scripts need them: one alone, behind what is not ASCII."""
_FEW = 3
"""So many in a row hide something; fewer come with text that was copied from a page."""


def hidden_characters(definition: Definition) -> list[Sign]:
    """Signs of characters that a person does not see and a model reads."""
    if definition.item.isascii() and b"\\u" not in definition.item:
        return []
    found: list[Sign] = []
    for where, text in definition.texts:
        if text.isascii():
            continue
        for match in UNSEEN.finditer(_MEANT.sub("", _FLAG.sub("", text))):
            run = match[0]
            codes = " ".join(f"U+{ord(one):04X}" for one in run[:8])
            at = f"{where}: {codes}{' …' if len(run) > 8 else ''}"
            if any("\U000e0000" <= one <= "\U000e007f" for one in run):
                said = "".join(chr(ord(one) - 0xE0000) for one in run if 0xE0020 <= ord(one) <= 0xE007E)
                found.append(Sign("hidden-text", f"its {_part(where)} hides text in tag characters", f"{at}: {said!r}"))
            elif re.search(f"[{BIDI}]", run):
                found.append(Sign("hidden-text", f"its {_part(where)} changes the direction of its text", at))
            elif len(run) > _FEW:
                found.append(Sign("hidden-text", f"its {_part(where)} hides text in invisible characters", at))
            else:
                words = f"its {_part(where)} has invisible characters"
                found.append(Sign("hidden-characters", words, at, holds=False))
    return list({sign.words: sign for sign in reversed(found)}.values())[::-1]


def _part(where: str) -> str:
    first = where.partition(".")[0]
    return PARTS.get(first, first or "definition").replace("_", " ")


# Words addressed to the model.

_GAP = r"\W+(?:[\w'’]+\W+){0,%d}?"
_TELL = "tell|telling|inform|informing|mention|mentioning|notify|notifying|reveal|revealing|disclose|alerting"
_WORDS = (
    (
        "tells the model to ignore what it was told",
        ("ignore", "disregard", "forget", "override", "bypass"),
        rf"\b(?:ignore|disregard|forget|override|bypass){_GAP % 3}"
        rf"(?:previous|prior|above|earlier|preceding|system|safety|original){_GAP % 2}"
        r"(?:instructions?|prompts?|rules|guidelines|directives|messages)\b",
    ),
    (
        "tells the model to hide something from the user",
        ("tell", "inform", "mention", "notif", "reveal", "disclose", "alerting"),
        rf"\b(?:do not|don['’]t|never|must not|should not|shouldn['’]t|without|avoid){_GAP % 2}(?:{_TELL}){_GAP % 5}"
        r"(?:user|users|human|person)\b(?!\s+(?:an?|there)\b)",
    ),
    (
        "tells the model to hide something from the user",
        ("from the user", "from your user", "from user", "from the human", "from your human", "from human"),
        rf"\b(?:hide|conceal|keep){_GAP % 4}(?:secret |hidden )?from (?:the |your )?(?:user|human)\b",
    ),
    (
        "speaks to the model in a tag of its own",
        ("<",),
        r"<\s*(?:important|system|critical|hidden|system[-_ ]?prompt|system[-_ ]?instructions?)\s*>|</\s*secret\s*>",
    ),
    (
        "asks the model for files that hold secrets",
        ("ssh", "id_rsa", "id_ed25519", "/etc/", ".aws/", "mcp.json"),
        r"\b(?:read|cat|open|load|include|send|pass|attach|provide)\b[^.\n]{0,80}"
        r"(?:~/\.ssh\b|\bid_rsa\b|\bid_ed25519\b|/etc/passwd\b|/etc/shadow\b|\.aws/credentials\b|\.cursor/mcp\.json\b)",
    ),
)
_INSTRUCTIONS = tuple((words, hints, re.compile(pattern, re.IGNORECASE)) for words, hints, pattern in _WORDS)


def instructions(definition: Definition) -> list[Sign]:
    """Signs of words that are meant for the model, against whoever it works for."""
    found: dict[str, Sign] = {}
    for words, hints, pattern in _INSTRUCTIONS:
        if words in found or not any(hint in definition.lowered for hint in hints):
            continue
        for where, text in definition.prose:
            match = pattern.search(text)
            if match is not None:
                found[words] = Sign("instructions", f"its {_part(where)} {words}", f"{where}: {_around(text, match)}")
                break
    return list(found.values())


def _around(text: str, match: re.Match[str]) -> str:
    cut = text[max(match.start() - 20, 0) : match.end() + 40]
    return f"“{' '.join(cut.split())}”"


# Names that look like another's.


def look_alike(definition: Definition, server: str, names: Names) -> list[Sign]:
    """Signs of a name that is taken for another's."""
    name = definition.name
    if not name:
        return []
    found = names.like(server, name)
    if found is not None:
        other, owner = found
        written = name if name.isascii() else name.encode("ascii", "backslashreplace").decode()
        return [Sign("look-alike", f"its name looks like {other!r} of server {owner!r}", f"name: {written}")]
    if mixes_scripts(name):
        written = name.encode("ascii", "backslashreplace").decode()
        return [Sign("look-alike", "its name mixes letters of alphabets that look alike", f"name: {written}")]
    return []


# What speaks of another server's tools.

_IDENTIFIER = re.compile(
    r"(?<![\w/.:@-])[A-Za-z][A-Za-z0-9]*(?:[_-]+[A-Za-z0-9]+)+(?![\w/(-])|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b"
)
_REDIRECTS = re.compile(
    r"\binstead of\b|\brather than\b|\bin place of\b|\breplac(?:es?|ing)\b|\bsupersedes?\b|\boverrid(?:es?|ing)\b"
    r"|\b(?:do not|don['’]t|never|must not|stop) (?:ever )?(?:use|using|call|calling|trust)\b"
    r"|\b(?:must|should|always|has to|have to|needs to)\b"
    r"|\bis (?:broken|obsolete|disabled|unsafe|insecure|compromised)\b",
    re.IGNORECASE,
)


def claims(definition: Definition, server: str, names: Names) -> list[Sign]:
    """Signs of a text that says how another server's tool is to be used, or that it is not."""
    found: dict[str, Sign] = {}
    own = definition.arguments()
    for where, text in definition.prose:
        others = {word: whose for word in set(_IDENTIFIER.findall(text)) if (whose := _whose(word, server, names))}
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", text) if others else ():
            for word, whose in others.items() if _REDIRECTS.search(sentence) else ():
                if word in sentence and word not in own and word not in found:
                    words = f"its {_part(where)} says how {word!r} of server {whose!r} is to be used"
                    found[word] = Sign("claims-tool", words, f"{where}: “{' '.join(sentence.split())[:200]}”")
    return list(found.values())


def _whose(word: str, server: str, names: Names) -> str:
    """The other server that a tool is of, by its own name or with its server before it."""
    said, _, tool = word.rpartition("__")
    if names.has(server, word) or names.has(server, tool):
        return ""
    others = names.others(server, plain_name(tool))
    return (said if said in others else "") if said else next(iter(others), "")
