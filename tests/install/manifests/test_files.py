"""Folders with manifests are not trusted: tricks with paths, sizes and shapes are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.install.manifests.samples import PLUGIN, npm
from trunkline.errors import ManifestError
from trunkline.install.manifests.files import LARGEST, inside, open_manifest


def test_a_folder_has_a_server_json_or_a_plugin_json_and_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / "plugin.json").write_text(json.dumps(PLUGIN))
    plugin = open_manifest(tmp_path)
    (tmp_path / "server.json").write_text("\ufeff" + json.dumps(npm()))

    assert plugin.name == PLUGIN["name"]
    assert open_manifest(tmp_path).name == npm()["name"]
    assert open_manifest(tmp_path / "plugin.json") == plugin
    assert plugin.folder == tmp_path.resolve()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "must be an object"),
        (b'{"name": NaN}', "is not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"name": "a", "x": ' + b"[" * 80 + b"]" * 80 + b"}", "nested too deeply"),
        (b'{"name": "' + b"a" * LARGEST + b'"}', "has more than 1 MiB"),
        (b"a: &a [*a, *a]", "is not JSON"),
        (b"1" * 5000, "is not JSON"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_by_name(content: bytes, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "server.json").write_bytes(content)

    with pytest.raises(ManifestError) as caught:
        open_manifest(tmp_path)

    assert complaint in str(caught.value)
    assert "server.json" in str(caught.value)


def test_a_manifest_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "real.json").write_text(json.dumps(npm()))
    (tmp_path / "p" / "server.json").symlink_to(tmp_path / "real.json")

    with pytest.raises(ManifestError, match="leads out of"):
        open_manifest(tmp_path / "p")


def test_pipes_folders_and_nothing_at_all_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "server.json")

    with pytest.raises(ManifestError, match="is not a file"):
        open_manifest(tmp_path)
    with pytest.raises(ManifestError, match="There is no file"):
        open_manifest(tmp_path / "x.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError, match="no manifest in"):
        open_manifest(tmp_path / "empty")


@pytest.mark.parametrize("name", ["../b/x", "/etc/passwd", "link", "loop", "a/../../b/x", "no", "\0", "sub"])
def test_names_that_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    # The sibling begins with the folder's own name, which fools those who compare beginnings.
    folder, sibling = tmp_path / "a", tmp_path / "a-sibling"
    for one in (folder / "a", folder / "sub", sibling, tmp_path / "b"):
        one.mkdir(parents=True)
    (sibling / "x").touch()
    (tmp_path / "b" / "x").touch()
    (folder / "link").symlink_to(sibling / "x")
    (folder / "loop").symlink_to(folder / "loop")

    for tried in (name, "../a-sibling/x"):
        with pytest.raises(ManifestError):
            inside(folder, tried)


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to("real")

    assert inside(tmp_path, "link") == (tmp_path / "real").resolve()
