"""Answers count if they fit their question; what is wrong is named, and never the value."""

from __future__ import annotations

from datetime import date
from pathlib import PurePosixPath
from typing import Any

import pytest

from trunkline.questions.answers import check_answer, check_question, default_of, read_answer
from trunkline.questions.fields import FieldType, FieldValidation, FileReference, FormField, Secret, SelectOption
from trunkline.questions.kinds import (
    ConfirmationRequest,
    Elicitation,
    ElicitationResponse,
    FileRequest,
    FormRequest,
    MultiselectRequest,
    SecretRequest,
    SelectRequest,
    TextRequest,
    UrlRequest,
)

CONFIRM = ConfirmationRequest("Delete?", id="q")
REGIONS = (SelectOption("us", "United States"), SelectOption("eu", "Europe"), SelectOption("mars", disabled=True))
SELECT = SelectRequest("Where?", id="q", options=REGIONS)
SOME = MultiselectRequest("Where?", id="q", options=(*REGIONS, SelectOption("as")), min_selections=1, max_selections=2)
TEXT = TextRequest("Name?", id="q", min_length=2, max_length=4, pattern="^[a-z]+$")
FORM = FormRequest(
    "Deploy",
    id="q",
    fields=(
        FormField("region", type="select", required=True, options=REGIONS),
        FormField("replicas", type="integer", default_value=3, validation=FieldValidation(1, 9, message="Be modest.")),
        FormField("password", type="password", validation=FieldValidation(min=4)),
    ),
)
CSV = FileRequest("Which?", id="q", accept=(".csv", "image/*"), max_size=100)


@pytest.mark.parametrize(
    ("request_", "value", "kept"),
    [
        (CONFIRM, True, True),
        (CONFIRM, False, False),
        (TEXT, "abc", "abc"),
        (SELECT, "eu", "eu"),
        (SOME, ("eu", "as"), ["eu", "as"]),
        (FORM, {"region": "us", "replicas": 2.0}, {"region": "us", "replicas": 2}),
        (FORM, {"region": "us"}, {"region": "us", "replicas": 3}),
        (FORM, {"region": "us", "replicas": None}, {"region": "us"}),
        (FORM, {"region": "us", "password": "open"}, {"region": "us", "replicas": 3, "password": Secret("open")}),
        (SecretRequest("Key?"), "k", Secret("k")),
        (SecretRequest("Key?"), Secret("k"), Secret("k")),
        (UrlRequest("Pay", url="https://example.org"), True, True),
        (FileRequest("Which?"), "/a/b.txt", (FileReference("b.txt", "/a/b.txt"),)),
        (FileRequest("Which?"), PurePosixPath("/a/b.txt"), (FileReference("b.txt", "/a/b.txt"),)),
        (CSV, {"path": "/a/b.CSV", "size": 100}, (FileReference("b.CSV", "/a/b.CSV", size=100),)),
        (CSV, FileReference("c", uri="x:c", size=1, media_type="image/png"), None),
        (FileRequest("Which?", multiple=True), ["a", "b"], (FileReference("a", "a"), FileReference("b", "b"))),
        (TextRequest("Name?", optional=True, min_length=1), None, None),
    ],
)
def test_an_answer_that_fits_is_kept_in_its_proper_form(request_: Elicitation, value: Any, kept: Any) -> None:
    checked = check_answer(request_, value)

    assert checked.problems == ()
    assert checked.value == (kept if kept is not None or value is None else (value,))


@pytest.mark.parametrize(
    ("request_", "value", "problem"),
    [
        (CONFIRM, 1, "yes or no"),
        (CONFIRM, "yes", "yes or no"),
        (CONFIRM, None, "required"),
        (TEXT, 5, "text"),
        (TEXT, "a", "at least 2"),
        (TEXT, "abcde", "at most 4"),
        (TEXT, "ABC", "pattern"),
        (TextRequest("Mail?", format="email"), "nobody", "'email'"),
        (SELECT, "asia", "option"),
        (SELECT, "mars", "option"),
        (SELECT, ["us"], "option"),
        (SOME, "us", "list"),
        (SOME, [], "at least 1"),
        (SOME, ["us", "eu", "as"], "at most 2"),
        (SOME, ["us", "us"], "twice"),
        (SOME, ["mars"], "options only"),
        (SOME, [["us"]], "options only"),
        (FORM, "us", "fields"),
        (FORM, {}, "'region' is required"),
        (FORM, {"region": "asia"}, "'region'"),
        (FORM, {"region": "us", "replicas": True}, "'replicas' must be a number"),
        (FORM, {"region": "us", "replicas": 1.5}, "whole"),
        (FORM, {"region": "us", "replicas": 10}, "at most 9. Be modest."),
        (FORM, {"region": "us", "replicas": 0}, "at least 1"),
        (FORM, {"region": "us", "replicas": float("nan")}, "number"),
        (FORM, {"region": "us", "extra": 1}, "not asked for"),
        (SecretRequest("Key?"), 5, "text"),
        (UrlRequest("Pay", url="https://example.org"), "yes", "yes or no"),
        (FileRequest("Which?"), "", "name a file"),
        (FileRequest("Which?"), [], "name a file"),
        (FileRequest("Which?"), {"path": 5}, "name a file"),
        (FileRequest("Which?"), {"path": "a", "size": "big"}, "name a file"),
        (FileRequest("Which?"), ["a", "b"], "one file only"),
        (CSV, {"path": "a.csv", "size": 101}, "100 bytes"),
        (CSV, "a.csv", "size must be known"),
        (CSV, {"path": "a.txt", "size": 1}, "one of: .csv, image/*"),
        (CSV, {"name": "a.csv", "path": "/etc/shadow", "size": 1}, "one of"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_why(request_: Elicitation, value: Any, problem: str) -> None:
    assert problem in " ".join(check_answer(request_, value).problems)


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("number", 1.5, "1.5"),
        ("integer", 4, 4.5),
        ("boolean", False, 0),
        ("date", "2025-12-31", "31.12.2025"),
        ("text", "", 0),
        ("password", "", []),
    ],
)
def test_each_type_of_field_takes_its_own_values_only(type_: FieldType, good: Any, bad: Any) -> None:
    form = FormRequest("Fill in", fields=(FormField("x", type=type_),))

    assert not check_answer(form, {"x": good}).problems
    assert "'x'" in check_answer(form, {"x": bad}).problems[0]


def test_a_date_may_be_given_as_one() -> None:
    form = FormRequest("When?", fields=(FormField("day", type="date"),))

    assert check_answer(form, {"day": date(2025, 12, 31)}).value == {"day": "2025-12-31"}


def test_a_secret_that_does_not_fit_is_not_in_the_problem() -> None:
    form = check_answer(FORM, {"region": "us", "password": "abc"})
    text = read_answer(TEXT, "HUNTER2")

    assert "abc" not in " ".join(form.problems)
    assert "HUNTER2" not in repr(text)


@pytest.mark.parametrize(
    "given",
    [
        True,
        {"confirmed": True},
        {"value": True},
        {"responded": True, "value": True},
        {"requestId": "q", "responded": True, "value": True, "timestamp": 1},
        ElicitationResponse("q", responded=True, value=True),
    ],
)
def test_a_handler_may_write_its_answer_in_several_ways(given: object) -> None:
    assert read_answer(CONFIRM, given).confirmed


@pytest.mark.parametrize(
    "given",
    [
        None,
        1,
        "true",
        {"confirmed": "true"},
        {"confirmed": 1},
        {"responded": False, "value": True},
        {"responded": "yes", "value": True},
        {"responded": True, "value": True, "timedOut": True},
        {"responded": True, "value": True, "cancelled": True},
        {"requestId": "another", "responded": True, "value": True},
        ElicitationResponse("q", responded=False, value=True),
        ElicitationResponse("q", responded=True, value=True, timed_out=True),
        ElicitationResponse("another", responded=True, value=True),
    ],
)
def test_nothing_but_a_clear_yes_confirms(given: object) -> None:
    response = read_answer(CONFIRM, given)

    assert not response.confirmed
    assert response.value is None
    assert response.request_id == "q"


def test_the_fields_of_a_form_come_before_the_words_of_a_response() -> None:
    form = FormRequest("Fill in", fields=(FormField("value"), FormField("responded", type="boolean")))

    assert read_answer(form, {"value": "a", "responded": False}).value == {"value": "a", "responded": False}
    assert read_answer(form, {"value": "a"}).value == {"value": "a"}


def test_the_default_of_a_confirmation_is_no_answer() -> None:
    assert default_of(ConfirmationRequest("Go?", default_value=True)).problems
    assert default_of(TextRequest("Name?", default_value="x")).value == "x"
    assert default_of(SelectRequest("Where?", options=REGIONS, default_value="moon")).problems


def test_a_question_with_a_pattern_that_cannot_be_bounded_is_found_out() -> None:
    form = FormRequest("Fill in", fields=(FormField("x", validation=FieldValidation(pattern=r"(a)\1")),))

    assert "'x'" in check_question(form)[0]
    assert check_question(TextRequest("Name?", pattern="(?=a)"))
    assert not check_question(TEXT)
