"""Questions are well made, or not made at all; secrets do not show."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable

import pytest

from trunkline.questions.fields import FieldValidation, FormField, Secret, SelectOption
from trunkline.questions.kinds import (
    KINDS,
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: TextRequest("Name?", timeout=0),
        lambda: TextRequest("Name?", timeout=float("nan")),
        lambda: TextRequest("Name?", timeout=float("inf")),
        lambda: TextRequest("Name?", id=""),
        lambda: TextRequest("Name?", min_length=3, max_length=2),
        lambda: SelectRequest("Which?", options=()),
        lambda: SelectRequest("Which?", options=(SelectOption("a", disabled=True),)),
        lambda: SelectRequest("Which?", options=(SelectOption("a"), SelectOption("a"))),
        lambda: MultiselectRequest("Which?", options=(SelectOption("a"),), min_selections=2, max_selections=1),
        lambda: FormRequest("Fill in", fields=(FormField("a"), FormField("a"))),
        lambda: FormRequest("Fill in", fields=(FormField(""),)),
        lambda: FormRequest("Fill in", fields=(FormField("a", type="select"),)),
        lambda: FormRequest("Fill in", fields=(FormField("a", validation=FieldValidation(2, 1)),)),
        lambda: FileRequest("Which?", max_size=0),
        lambda: UrlRequest("Go there", url="javascript:alert(1)"),
        lambda: UrlRequest("Go there", url="https://example.org/\x1b[2J"),
        lambda: UrlRequest("Go there", url=""),
    ],
)
def test_a_question_that_nobody_could_answer_is_not_made(make: Callable[[], Elicitation]) -> None:
    with pytest.raises(ValueError, match=r"question|Question|Form|Field"):
        make()


def test_questions_have_ids_of_their_own_and_know_their_type() -> None:
    assert ConfirmationRequest("Go?").id != ConfirmationRequest("Go?").id
    assert set(KINDS) == {"confirmation", "text", "select", "multiselect", "form", "file", "secret", "url"}


def test_a_secret_shows_itself_to_nobody_who_does_not_ask(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret("hunter2")
    response = ElicitationResponse("q", responded=True, value={"password": secret})

    with caplog.at_level(logging.INFO):
        logging.getLogger("trunkline").info("%s %r", secret, response)

    assert "hunter2" not in f"{secret} {secret!r} {response} {caplog.text}"
    assert secret.reveal() == "hunter2"
    assert copy.deepcopy(secret) == secret != Secret("other")
    assert len({secret, Secret("hunter2")}) == 1
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_defaults_and_context_are_not_in_the_repr_of_a_question() -> None:
    field = FormField("password", type="password", default_value="hunter2")
    asked = FormRequest("Log in", fields=(field,), context={"password": "hunter2"})

    assert "hunter2" not in repr(asked) + repr(SecretRequest("Key?", default_value="hunter2"))
