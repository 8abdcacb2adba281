"""Where values come from, in which order, and that nobody sees them."""

from __future__ import annotations

from typing import Any

import pytest

from trunkline.errors import ManifestError
from trunkline.install.manifests.environment import resolve
from trunkline.install.manifests.manifest import Variable

KEY = Variable("KEY", required=True, secret=True)
PLACES: dict[str, Any] = {
    "overrides": {"KEY": "override"},
    "secrets": {"KEY": "secret"}.get,
    "configuration": {"KEY": "configuration"},
    "system": {"KEY": "system"},
}


@pytest.mark.parametrize("first", range(4))
def test_the_documented_order_holds(first: int) -> None:
    found = resolve([KEY], **dict(list(PLACES.items())[first:]))

    assert found.values == {"KEY": ("override", "secret", "configuration", "system")[first]}
    assert found.origins["KEY"] == found.values["KEY"]


def test_the_default_comes_last_and_the_system_only_when_allowed() -> None:
    variable = Variable("A", default="d")

    assert resolve([variable], system={"A": "s"}).values == {"A": "s"}
    assert resolve([variable]).values == {"A": "d"}
    assert resolve([KEY]).missing == ("KEY",)


def test_an_empty_value_is_none_everywhere() -> None:
    found = resolve([KEY], overrides={"KEY": ""}, configuration={"KEY": ""}, system={"KEY": ""})

    assert (found.values, found.missing) == ({}, ("KEY",))
    assert resolve([KEY], overrides={"KEY": ""}, system={"KEY": "s"}).values == {"KEY": "s"}


def test_values_that_are_no_texts_are_written_or_refused_but_crash_nothing() -> None:
    variables = [Variable("N", format="number"), Variable("B", format="boolean"), Variable("T"), Variable("X")]

    found = resolve(variables, configuration={"N": 3, "B": True, "T": 1.5, "X": {"a": 1}})

    assert found.values == {"N": "3", "B": "true", "T": "1.5"}
    assert found.wrong == ("X must be a text, a number, true or false.",)


@pytest.mark.parametrize(
    ("variable", "good", "bad"),
    [
        (Variable("A", format="number"), ("1", "-2.5", "1e3"), ("x", "1_0", "nan", "inf", " 1")),
        (Variable("A", format="boolean"), ("true", "False"), ("yes", "1")),
        (Variable("A", choices=("c", "f")), ("c",), ("C", "x")),
        (Variable("A", format="filepath"), ("/a b", "~/x"), ("a\0b",)),
    ],
)
def test_formats_are_checked(variable: Variable, good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    assert all(not resolve([variable], overrides={"A": text}).wrong for text in good)
    assert all(resolve([variable], overrides={"A": text}).wrong for text in bad)


def test_undeclared_configuration_passes_and_undeclared_secrets_and_system_variables_do_not() -> None:
    asked: list[str] = []

    def secrets(name: str) -> str | None:
        asked.append(name)
        return None

    found = resolve([KEY], overrides={"O": "1"}, secrets=secrets, configuration={"C": "2"}, system={"S": "3"})

    assert found.extra == {"O": "1", "C": "2"}
    assert asked == ["KEY"]


def test_values_show_in_no_repr_and_no_error() -> None:
    number = Variable("PORT", format="number", secret=True)
    good = resolve([KEY, Variable("U")], overrides={"KEY": "s3cret", "U": "c"})
    bad = resolve([number], overrides={"PORT": "s3cret"})

    with pytest.raises(ManifestError) as caught:
        bad.checked()

    assert "s3cret" not in f"{good!r} {bad!r} {caught.value!r} {caught.value}"
    assert good.masked() == {"KEY": "***", "U": "c"}


def test_everything_that_is_missing_is_named_together() -> None:
    with pytest.raises(ManifestError, match="It needs A, B"):
        resolve([Variable("A", required=True), Variable("B", required=True)]).checked()
