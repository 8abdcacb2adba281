"""Our own files are not as they should be, and `--fix` sets them right."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.scene import GOOD, Machine
from trunkline.cli.main import main
from trunkline.config.reading import load
from trunkline.control.list_store import ListStore
from trunkline.storage.files import seal_key


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def healthy(machine: Machine) -> Machine:
    """A machine on which all is well, and a catalogue was kept."""
    machine.configure(GOOD)
    seal_key(machine.home)
    assert main(["tools"]) == 0
    machine.capture.readouterr()
    return machine


def test_a_key_that_others_can_read_is_made_private(healthy: Machine) -> None:
    key = healthy.home / "seal.key"
    key.chmod(0o644)

    told = healthy.doctor()
    fixed = healthy.doctor("--fix", "--yes")

    assert told.codes == ["TL506"]
    assert told.finding("TL506")["command"] == f"chmod 600 {key}"
    assert (fixed.code, fixed.codes, mode(key)) == (0, [], 0o600)
    assert fixed.fixed == [f"gave {key} the mode 600"]


def test_a_home_that_others_can_write_to_is_made_private(healthy: Machine) -> None:
    healthy.home.chmod(0o777)

    assert healthy.doctor().codes == ["TL506"]
    assert healthy.doctor("--fix", "--yes").code == 0
    assert mode(healthy.home) == 0o700


def test_a_home_that_its_owner_may_not_use_is_opened(healthy: Machine) -> None:
    healthy.home.chmod(0o500)

    assert healthy.doctor().codes == ["TL505"]
    assert healthy.doctor("--fix", "--yes").code == 0
    assert mode(healthy.home) == 0o700


def test_a_file_in_the_place_of_the_home_is_moved_aside(machine: Machine) -> None:
    machine.configure(GOOD)
    machine.home.write_text("mine")

    assert machine.doctor().codes == ["TL505"]
    assert machine.doctor("--fix", "--yes").code == 0
    assert machine.home.is_dir()
    assert machine.home.with_name("state.before-doctor").read_text() == "mine"


def test_a_link_that_leads_nowhere_gets_its_folder(machine: Machine) -> None:
    machine.configure(GOOD)
    machine.home.symlink_to(machine.folder / "gone")

    assert machine.doctor().codes == ["TL505"]
    assert machine.doctor("--fix", "--yes").code == 0
    assert (machine.folder / "gone").is_dir()


def test_a_key_that_is_broken_is_not_deleted_for_you(healthy: Machine) -> None:
    key = healthy.home / "seal.key"
    key.write_bytes(b"short")

    told = healthy.doctor("--fix", "--yes")

    assert (told.code, told.codes) == (1, ["TL507"])
    assert told.finding("TL507")["command"] == f"rm {key}"
    assert key.read_bytes() == b"short"
    key.unlink()
    assert healthy.is_well()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 2}'])
def test_a_corrupt_catalogue_is_deleted(content: bytes, healthy: Machine) -> None:
    file = healthy.home / "catalogue" / "it.json"
    assert file.exists()
    file.write_bytes(content)

    told = healthy.doctor()
    fixed = healthy.doctor("--fix", "--yes")

    assert told.codes == ["TL508"]
    assert (fixed.code, file.exists()) == (0, False)


def test_a_catalogue_that_lost_a_part_is_corrupt_too(healthy: Machine) -> None:
    file = healthy.home / "catalogue" / "it.json"
    file.write_text(file.read_text().replace('"lists"', '"lasts"'))

    assert healthy.doctor().codes == ["TL508"]


def test_a_catalogue_of_another_configuration_is_good_to_know(healthy: Machine) -> None:
    healthy.configure({**GOOD, "timeout": 7})

    told = healthy.doctor()

    assert (told.code, [one["code"] for one in told.findings]) == (0, ["TL509"])
    assert healthy.doctor("--fix", "--yes").findings == []


def test_a_catalogue_that_is_used_is_left_alone(healthy: Machine) -> None:
    healthy.doctor("--fix", "--yes")

    spec = load(healthy.file, env={}).servers["it"]
    assert ListStore(healthy.home).load(spec) is not None


def test_what_is_held_back_is_said_with_the_command_that_shows_it(healthy: Machine) -> None:
    (file,) = (healthy.home / "pins").iterdir()
    kept = json.loads(file.read_bytes())
    sign = {"code": "risk", "words": "it became destructive", "evidence": "", "holds": True}
    waiting: dict[str, Any] = {
        "state": "held",
        "definition": {},
        "digest": "0",
        "since": 1.0,
        "what": ["annotations"],
        "signs": [sign],
    }
    file.write_text(json.dumps({**kept, "waiting": {"tools": {"echo": waiting}}}))

    told = healthy.doctor()

    assert (told.code, told.codes) == (1, ["TL407"])
    assert told.finding("TL407")["seen"] == "echo is held back: it became destructive."
    assert told.finding("TL407")["command"] == f"trunkline review {kept['server']}"
