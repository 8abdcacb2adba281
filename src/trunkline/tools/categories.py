"""Which field a tool belongs to, by the words of its name and description."""

from __future__ import annotations

import re

from trunkline.tools.signs import split_name
from trunkline.tools.verbs import words

GENERAL = "general"

# In this order where two fit equally well: the more particular first.
_CATEGORIES: dict[str, frozenset[str]] = {
    "version-control": words(
        "git github gitlab bitbucket repository repositories repo repos commit commits branch branches fork forks diff "
        "diffs merge rebase pull svn mercurial"
    ),
    "authentication": words(
        "auth authenticate authentication authorization authorize credential credentials login logout oauth otp "
        "password passwords permission permissions role roles session sessions signin signup sso token tokens"
    ),
    "database": words(
        "collection collections database databases db index indexes mongodb mysql postgres postgresql redis record "
        "records row rows schema schemas sql sqlite table tables"
    ),
    "deployment": words(
        "build builds ci cluster clusters container containers deploy deployment deployments deploys docker helm "
        "infrastructure kubernetes namespace node pipeline pipelines pod pods provision release releases rollback "
        "terraform vm workflow workflows"
    ),
    "communication": words(
        "calendar channel channels chat email emails gmail mail message messages notification notifications notify "
        "outlook slack sms teams telegram thread"
    ),
    "file-system": words("directories directory disk drive file files filesystem folder folders path paths"),
    "browser": words("browser click cookie cookies dom navigate page pages screenshot tab tabs"),
    "monitoring": words(
        "alert alerts dashboard dashboards incident incidents log logs metric metrics monitor monitors trace traces"
    ),
    "project-management": words(
        "backlog board boards epic issue issues milestone milestones project projects sprint sprints task tasks ticket "
        "tickets todo todos"
    ),
    "payment": words("charge customer customers invoice invoices payment payments payout price refund subscription"),
    "search": words("find lookup search searches"),
    "api": words("api apis endpoint endpoints graphql http https request requests rest url urls webhook webhooks"),
    "data": words("analytics csv data dataset datasets json query spreadsheet statistics worksheet xml"),
}
_OF_WORD: dict[str, tuple[str, ...]] = {
    word: tuple(category for category, members in _CATEGORIES.items() if word in members)
    for members in _CATEGORIES.values()
    for word in members
}
_IN_TEXT = re.compile(r"[a-z]+")
_READ_AT_MOST = 200
_NAME_WEIGHS = 3


def infer_category(name: str, description: str = "") -> str:
    """The category most of whose words occur; a word of the name weighs as much as three of the description."""
    scores: dict[str, int] = {}
    for word in split_name(name):
        for category in _OF_WORD.get(word, ()):
            scores[category] = scores.get(category, 0) + _NAME_WEIGHS
    for word in set(_IN_TEXT.findall(description[:_READ_AT_MOST].lower())):
        for category in _OF_WORD.get(word, ()):
            scores[category] = scores.get(category, 0) + 1
    if not scores:
        return GENERAL
    best = max(scores.values())
    return next(category for category in _CATEGORIES if scores.get(category) == best)
