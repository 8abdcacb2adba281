"""Files that are replaced at once."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from trunkline.errors import ConfigError
from trunkline.storage.files import read_document, replace_file, seal_key, try_replace_file, write_private


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_made_for_its_owner_alone_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "state.json"

    replace_file(path, b"one")

    assert path.read_bytes() == b"one"
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_a_file_has_the_mode_that_was_asked_for(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "state.json"

    replace_file(path, b"one", mode=mode, sync=True, keep_owner=True)
    replace_file(path, b"two", mode=mode, sync=True, keep_owner=True)

    assert (path.read_bytes(), mode_of(path)) == (b"two", mode)


def test_a_disk_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new", sync=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]
    assert path.read_bytes() == b"old"


def test_what_can_be_done_without_says_whether_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert try_replace_file(tmp_path / "folder" / "state.json", b"one")
    assert not try_replace_file(tmp_path / "file" / "state.json", b"one")


def test_a_private_file_is_made_once(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"one")

    with pytest.raises(FileExistsError):
        write_private(tmp_path / "key", b"two")
    assert (tmp_path / "key").read_bytes() == b"one"
    assert mode_of(tmp_path / "key") == 0o600


def test_what_the_disk_is_asked_to_have_was_given_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def sync(handle: int) -> None:
        sizes.append(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fsync", sync)
    replace_file(tmp_path / "state.json", b"one", sync=True)
    replace_file(tmp_path / "state.json", b"two")

    assert sizes == [3]


@pytest.mark.parametrize(
    ("user", "keep_owner", "given"), [(0, True, True), (0, False, False), (1, True, False), (None, True, False)]
)
def test_what_root_changes_stays_its_owners_where_that_is_wanted(
    user: int | None, keep_owner: bool, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    owner, owners = path.stat(), list[tuple[int, int]]()
    if user is None:
        monkeypatch.delattr(os, "geteuid")  # as where files have no such owners
    else:
        monkeypatch.setattr(os, "geteuid", lambda: user)

    def give(_: str, user: int, group: int) -> None:
        owners.append((user, group))

    monkeypatch.setattr(os, "chown", give)
    replace_file(path, b"new", keep_owner=keep_owner)

    assert owners == [(owner.st_uid, owner.st_gid)] * given


# Documents.


@dataclass
class Note:
    format: int
    text: str


def read_note(path: Path, largest: int = 100) -> Note | None:
    return read_document(path, Note, format=2, largest=largest)


def test_a_document_is_read_if_it_is_there_not_too_large_and_of_its_format(tmp_path: Path) -> None:
    path, content = tmp_path / "note.json", b'{"format": 2, "text": "hello"}'
    assert read_note(path) is None
    path.write_bytes(content)

    assert read_note(path, len(content)) == Note(2, "hello")
    with pytest.raises(ValueError, match="it is too large"):
        read_note(path, len(content) - 1)
    path.write_bytes(content.replace(b"2", b"3"))
    with pytest.raises(ValueError, match="its format is 3"):
        read_note(path)


@pytest.mark.parametrize(
    ("error", "words"), [(OSError(5, "Input/output error"), "Input/output error"), (OSError("odd"), "odd")]
)
def test_a_document_that_the_disk_does_not_give_says_why(
    error: OSError, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "note.json").write_bytes(b"{}")

    def fail(_: Path) -> bytes:
        raise error

    monkeypatch.setattr(Path, "read_bytes", fail)

    with pytest.raises(ValueError, match=f"^{words}$"):
        read_note(tmp_path / "note.json")


# The key.


def test_a_key_is_made_once_for_its_owner_alone_with_its_folder(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    key = seal_key(home)

    assert (len(key), seal_key(home), (home / "seal.key").read_bytes()) == (32, key, key)
    assert (mode_of(home), mode_of(home / "seal.key")) == (0o700, 0o600)
    other = seal_key(home, file=home / "other.key")
    assert other == (home / "other.key").read_bytes() != key


def test_a_key_that_is_missing_is_made_only_where_that_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"seal\.key is missing"):
        seal_key(tmp_path, make=False)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_file_of_another_length_is_no_key(size: int, tmp_path: Path) -> None:
    (tmp_path / "seal.key").write_bytes(b"k" * size)

    with pytest.raises(ConfigError, match="is not a key of ours"):
        seal_key(tmp_path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o601, 0o700])
def test_a_key_that_others_can_read_is_taken_from_them(mode: int, tmp_path: Path) -> None:
    (tmp_path / "seal.key").write_bytes(b"k" * 32)
    (tmp_path / "seal.key").chmod(mode)

    assert seal_key(tmp_path) == b"k" * 32
    assert mode_of(tmp_path / "seal.key") == (0o700 if mode == 0o700 else 0o600)


def test_a_key_that_cannot_be_taken_from_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "seal.key").write_bytes(b"k" * 32)
    (tmp_path / "seal.key").chmod(0o644)

    def fail(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", fail)

    with pytest.raises(ConfigError, match="a key that others can read"):
        seal_key(tmp_path)
