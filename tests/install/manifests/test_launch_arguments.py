"""Whatever is answered, the command has the same words around it, and no answer becomes an option."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.install.manifests.samples import npm, oci, read
from trunkline.errors import ManifestError
from trunkline.install.manifests.launch import plan

TEXT = st.text(min_size=1).filter(lambda text: "\0" not in text and "${" not in text)
NASTY = st.sampled_from(
    [
        "; touch canary",
        "$(touch canary)",
        "`touch canary`",
        "--evil",
        "-e",
        "--",
        "-",
        "a b",
        "'",
        '"',
        "\n",
        "{b}",
        "|x",
    ]
)
ANSWER = TEXT | NASTY


@given(ANSWER, ANSWER)
def test_an_answer_is_one_word_and_its_flag_holds_it(first: str, second: str) -> None:
    manifest = read(
        npm(
            packageArguments=[
                {"type": "named", "name": "--first", "valueHint": "v"},
                {"type": "named", "name": "--second", "value": "x={second}", "variables": {"second": {}}},
            ]
        )
    )

    spec = plan(manifest, {"--first": first, "second": second})

    assert spec.args == ("-y", "@acme/weather@1.2.3", f"--first={first}", f"--second=x={second}")


@given(ANSWER)
def test_a_positional_answer_is_never_an_option(text: str) -> None:
    manifest = read(
        npm(
            packageArguments=[
                {"type": "positional", "valueHint": "plain"},
                {"type": "positional", "value": "{inner}!", "variables": {"inner": {}}},
                {"type": "named", "name": "-s", "valueHint": "short"},
            ]
        )
    )
    for answers in ({"plain": text}, {"inner": text}, {"-s": text}):
        if text.startswith("-"):
            with pytest.raises(ManifestError, match="would be taken for an option"):
                plan(manifest, answers)
        else:
            words = plan(manifest, answers).args[2:]
            assert [word for word in words if word.startswith("-")] in ([], ["-s"])


@given(ANSWER)
def test_docker_options_cannot_be_answered(text: str) -> None:
    manifest = read(
        oci(
            runtimeArguments=[
                {"type": "named", "name": "--network", "valueHint": "n"},
                {"type": "named", "name": "-e", "value": "A={a}", "variables": {"a": {}}},
            ],
            environmentVariables=[{"name": "B"}],
        )
    )

    spec = plan(manifest, {"--network": text, "a": text, "B": text})

    assert spec.args == ("run", "-i", "--rm", "-e", "B", "-e", "A", f"--network={text}", "acme/weather:1.2.3")
    assert spec.env == {"A": text, "B": text}


def test_negative_numbers_are_numbers() -> None:
    manifest = read(npm(packageArguments=[{"type": "positional", "valueHint": "n", "format": "number"}]))

    assert plan(manifest, {"n": "-5"}).args[-1] == "-5"
    with pytest.raises(ManifestError):
        plan(manifest, {"n": "-x"})


@settings(max_examples=10, deadline=None)
@given(ANSWER.filter(lambda text: not text.startswith("-") and text.isprintable()))
def test_a_program_gets_exactly_what_was_answered(text: str) -> None:
    manifest = read(npm(packageArguments=[{"type": "positional", "valueHint": "x"}]))
    answered = plan(manifest, {"x": text}).args[-1]

    echo = [sys.executable, "-S", "-c", "import sys; sys.stdout.buffer.write(sys.argv[1].encode())", answered]
    assert subprocess.run(echo, capture_output=True, check=True).stdout.decode() == text
