"""The master key: from where the operator keeps it, never shown, and never made anew where something needs the old."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.config.test_secrets import Ring
from trunkline.config.master_key import MasterKey
from trunkline.errors import ConfigError

KEY = "5a" * 32


def test_a_file_is_made_once_and_is_its_owners_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = MasterKey(tmp_path, env={})
    with pytest.raises(ConfigError, match=r"seal\.key is missing"):
        key.read()
    [made] = key.read(make=True)
    (tmp_path / "seal.key").chmod(0o644)

    assert key.read() == key.read(make=True) == [made]
    assert (tmp_path / "seal.key").stat().st_mode & 0o777 == 0o600
    assert "others could read (mode 644): its mode is 600 now" in caplog.text


def test_the_configuration_a_variable_or_a_command_gives_it(tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-c", f"print('{KEY}')"])
    places = {
        "[store] `key`": MasterKey(tmp_path, KEY, env={"TRUNKLINE_MASTER_KEY": "00" * 32}),
        "TRUNKLINE_MASTER_KEY": MasterKey(tmp_path, env={"TRUNKLINE_MASTER_KEY": KEY}),
        "[store] `key_command`": MasterKey(tmp_path, command=command, env={"TRUNKLINE_MASTER_KEY": "00" * 32}),
    }

    for where, key in places.items():
        assert (key.where, key.read(), key.is_ours) == (where, [bytes.fromhex(KEY)], False)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError, match="a `key` and a `key_command`"):
        MasterKey(tmp_path, KEY, command)


@pytest.mark.parametrize("text", [KEY[:-1], KEY + "00", "s3cret-canary" * 4, ""])
def test_what_is_no_key_is_refused_without_showing_it(text: str, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-c", f"print('{text}')"])

    for key in (MasterKey(tmp_path, text or "x", env={}), MasterKey(tmp_path, command=command, env={})):
        with pytest.raises(ConfigError, match="64 hex digits") as caught:
            key.read(make=True)
        assert (text or "canary") not in str(caught.value)


@pytest.mark.parametrize("text", ["0" * 64, "F" * 64])
def test_a_key_that_a_template_would_have_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a placeholder"):
        MasterKey(tmp_path, text, env={}).read(make=True)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/nowhere/to-be-found", "does not run"),
        (shlex.join([sys.executable, "-c", "print('canary'); raise SystemExit(3)"]), "failed with status 3"),
        ("'", "is no command"),
    ],
)
def test_a_command_that_fails_is_told_and_not_what_it_printed(command: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        MasterKey(tmp_path, command=command, env={}).read(make=True)
    assert "canary" not in f"{caught.value!r} {caught.value.__context__!r}"


def test_a_keyring_keeps_it_where_that_is_said(tmp_path: Path) -> None:
    ring = Ring()
    key = MasterKey(tmp_path, "keyring", env={}, keyring=lambda: ring)
    with pytest.raises(ConfigError, match="has no master key"):
        key.read()
    [made] = key.read(make=True)

    assert key.read() == [made]
    assert list(ring.kept.values()) == [made.hex()]
    assert list(tmp_path.iterdir()) == []
    for broken in (lambda: None, lambda: Ring(broken=True)):
        with pytest.raises(ConfigError, match="keyring"):
            MasterKey(tmp_path, "keyring", env={}, keyring=broken).read(make=True)


@pytest.mark.parametrize("said", ["", "keyring"])
def test_a_successor_is_kept_beside_the_key_until_it_takes_its_place(said: str, tmp_path: Path) -> None:
    ring = Ring()
    key = MasterKey(tmp_path, said, env={}, keyring=lambda: ring)
    [old] = key.read(make=True)

    new = key.succeed()
    assert key.succeed() == new != old
    assert key.read() == [old, new]
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())
    key.adopt()
    key.adopt()

    assert key.read() == [new]
