"""The verbs of tool names and descriptions: what each does to the world, in every form it is written."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Effect(IntEnum):
    """What calling a tool does; of two, the greater is the one to fear."""

    READS = 0
    UNCLEAR = 1
    """It may read or write: only the other words can tell."""
    ADDS = 2
    CHANGES = 3
    """It switches or arranges what is there, and nothing is lost."""
    OVERWRITES = 4
    """What was there before is gone."""
    RUNS = 5
    """It does whatever its arguments say."""
    DESTROYS = 6


READS, UNCLEAR, ADDS, CHANGES, OVERWRITES, RUNS, DESTROYS = Effect


class Form(IntEnum):
    """How a verb is written: delete, deletes, deleting, deleted."""

    BASE = 0
    THIRD = 1
    GERUND = 2
    PAST = 3


BASE, THIRD, GERUND, PAST = Form


class Verb(NamedTuple):
    """One form of one verb."""

    lemma: str
    effect: Effect
    form: Form
    strict: bool
    """It is hardly ever a noun: `delete`, but not `post`."""


def words(text: str) -> frozenset[str]:
    """A set of words, written as one reads them."""
    return frozenset(text.split())


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(first, second) for first, second in (pair.split() for pair in text.split(", "))]


# For each effect, first those that are verbs wherever they stand, then those that are nouns as often: `list` in
# `mailing_list`, `post` in `post_updates`.
_LEXICON: dict[Effect, tuple[str, str]] = {
    READS: (
        """
        analyse analyze assess browse calculate categorize check classify compare decode describe detect determine
        diagnose discover enumerate examine explain explore fetch find gather get grep identify infer inspect interpret
        introspect investigate lint locate lookup ls observe parse peek predict read recall recognize recommend rerank
        retrieve see show suggest summarise summarize think transcribe translate troubleshoot validate verify
        visualize whoami
        """,
        """
        ask compute count diff display estimate filter forecast help list look match measure ping poll preview query
        quote rank reason research sample scan screenshot search sleep tail view wait
        """,
    ),
    UNCLEAR: (
        """
        aggregate capture collect convert crawl decrypt download emulate encode encrypt extract generate hash hover
        learn load navigate negotiate optimize refresh reload render resolve scrape scroll select simulate take
        tokenize transform unzip visit
        """,
        """
        answer audit benchmark compile debug design embed export focus format give group hide highlight log map model
        monitor open plan print process profile provide queue report request return review snapshot sort test trace
        track watch zip
        """,
    ),
    ADDS: (
        """
        accept ack acknowledge add advance allocate announce append approve attach authenticate authorize begin boot
        broadcast buy checkout clone compose confirm connect contribute create deploy deposit dial dispatch donate
        duplicate emit enqueue enroll fork grant import ingest init initialise initialize insert install invite join
        launch login make memorize mint notify onboard pay populate prepend propose provision publish purchase push
        raise react register reindex remember reply rerun resend respond retry schedule send setup spawn stage start
        stash store submit subscribe synthesize trigger tweet upload vote
        """,
        """
        backup bill book bookmark build cache call charge comment commit copy draft email file flag follow forward hook
        index issue label like link message note order pin play post prompt record release share star tag
        """,
    ),
    CHANGES: (
        """
        activate adjust annotate autofix close complete demote enable escalate extend finalize logout mark mute pause
        promote protect reauthorize reconcile reopen reorder repair reschedule resume snooze stop sync synchronize
        toggle transition tune unarchive unlock unmute unpause upgrade
        """,
        """
        archive fix handle hold lock pull scale
        """,
    ),
    # A click or a key does to a page whatever the page has it do.
    OVERWRITES: (
        """
        alter amend apply assign click configure customize disable downgrade drag edit fill merge migrate modify move
        mutate overwrite persist press put reassign rebase reboot rebuild reconfigure redeploy refactor rename replace
        resize restart restore rotate save set split squash swap swipe switch tap transfer type unmerge unprotect
        update upsert write
        """,
        """
        change patch
        """,
    ),
    RUNS: (
        """
        act eval evaluate exec execute interact invoke manage operate perform
        """,
        """
        bash batch command control run script shell terminal use work
        """,
    ),
    DESTROYS: (
        """
        abort cancel clean cleanup clear deactivate decline decommission del delete delist deny deprovision deregister
        destroy detach discard disconnect dismiss drop erase evict expire expunge flush forget invalidate kick kill
        nuke obliterate prune purge refund reject remove reset revert revoke rm rmdir rollback shred shutdown suspend
        teardown terminate truncate unapprove unassign unban undeploy undo unfollow unfriend uninstall unlike unlink
        unmount unpin unpublish unregister unroute unset unshare unstage unstar unsubscribe untag untrack unwatch void
        wipe withdraw
        """,
        """
        ban block cut empty strip trash
        """,
    ),
}

# Two words that together are another verb than the first alone.
PAIRS: dict[tuple[str, str], Effect] = {
    **dict.fromkeys(_pairs("back up, check in, check out, log in, set up, sign in, sign up"), ADDS),
    **dict.fromkeys(_pairs("check off, git fetch, log out, sign out, turn off, turn on"), CHANGES),
    **dict.fromkeys(_pairs("clean up, roll back, shut down, tear down"), DESTROYS),
}

_PASTS = dict(
    _pairs(
        "begin begun, build built, buy bought, find found, forget forgotten, get got, give given, make made, "
        "overwrite overwritten, pay paid, rebuild rebuilt, run ran, see seen, send sent, show shown, take taken, "
        "think thought, undo undone, withdraw withdrawn, write written"
    )
)
_UNCHANGED_PASTS = words("cut put read reset set split unset")
_DOUBLED = words(
    "ban begin commit cut drop embed flag forget format get log map pin plan put reset run scan set split stop strip "
    "submit swap tag tap transfer unban unpin unset untag unzip zip"
)
_BOTH_SPELLINGS = words("cancel label model")


def _forms(lemma: str) -> dict[str, Form]:
    """The four ways to write a verb, and both where two are usual (canceled, cancelled)."""
    stem = lemma
    if lemma.endswith("e") and not lemma.endswith(("ee", "oe", "ye")):
        stem = lemma[:-1]
    elif lemma in _DOUBLED:
        stem = lemma + lemma[-1]
    soft = lemma.endswith("y") and lemma[-2:-1] not in "aeiou"
    third = lemma[:-1] + "ies" if soft else lemma + ("es" if lemma.endswith(("s", "x", "z", "ch", "sh", "o")) else "s")
    past = lemma[:-1] + "ied" if soft else stem + "ed"
    forms = {_PASTS.get(lemma, past): PAST, stem + "ing": GERUND, third: THIRD}
    if lemma in _BOTH_SPELLINGS:
        forms |= {stem + "led": PAST, stem + "ling": GERUND}
    if lemma in _UNCHANGED_PASTS:
        del forms[past]
    return forms | {lemma: BASE}


def _table() -> dict[str, Verb]:
    table: dict[str, Verb] = {}
    for effect, columns in _LEXICON.items():
        for strict, column in zip((True, False), columns, strict=True):
            for lemma in column.split():
                table.update({word: Verb(lemma, effect, form, strict) for word, form in _forms(lemma).items()})
    return table


VERBS: dict[str, Verb] = _table()
"""Every form of every verb."""
