"""Files that are replaced at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from trunkline.storage.files import replace_file, try_replace_file, write_private


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_made_for_its_owner_alone_with_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"

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
    assert mode_of(tmp_path / "key") == 0o600
