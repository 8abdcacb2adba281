"""Secrets: kept apart from the configuration, encrypted, bound to their names, and shown to nobody."""

from __future__ import annotations

import base64
import fcntl
import hmac
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from trunkline.config.reading import parse
from trunkline.config.secrets import Secrets, look_up, name_for
from trunkline.errors import ConfigError
from trunkline.storage.files import seal_key
from trunkline.storage.sealing import kid_of

VALUE = "s3cret-9a7c"


class Ring:
    """A keyring."""

    def __init__(self, *, broken: bool = False) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = broken

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.broken:
            raise RuntimeError(f"no bus for {password}")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.broken:
            raise RuntimeError("no bus")
        del self.kept[service, username]


def in_file(home: Path) -> Secrets:
    return Secrets(home, keyring=lambda: None)


def document(home: Path) -> Any:
    return json.loads((home / "secrets.json").read_text())


def test_what_is_set_is_there_until_it_is_removed(tmp_path: Path) -> None:
    secrets = in_file(tmp_path / "home")

    assert secrets.get("a") is None
    assert secrets.set("b", "2") == secrets.set("a", "1") == "file"
    secrets.set("a", "ü\n" * 9)

    assert (secrets.names(), secrets.get("a"), secrets.get("b")) == (["a", "b"], "ü\n" * 9, "2")
    assert (secrets.remove("a"), secrets.remove("a"), secrets.names()) == (True, False, ["b"])


def test_the_file_shows_no_value_and_its_owner_alone_can_read_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        in_file(tmp_path / "home").set("a", VALUE)
    finally:
        os.umask(old)

    for file in (tmp_path / "home").iterdir():
        assert VALUE.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "home").stat().st_mode & 0o077 == 0


def test_a_value_cannot_be_moved_to_another_name_or_changed(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    secrets.set("b", "other")
    found = document(tmp_path)
    a, b = found["secrets"]["a"]["record"], found["secrets"]["b"]["record"]

    for one, other in ((b, a), (a[:-4] + "AAA=", b), ("", b), ("%%%", b), (f"{a[:4]}%{a[4:]}", b)):
        found["secrets"] = {"a": {"record": one}, "b": {"record": other}}
        (tmp_path / "secrets.json").write_text(json.dumps(found))
        with pytest.raises(ConfigError, match="The secret a was changed"):
            secrets.get("a")


def test_another_key_opens_nothing(tmp_path: Path) -> None:
    in_file(tmp_path).set("a", VALUE)
    (tmp_path / "seal.key").write_bytes(b"x" * 32)

    with pytest.raises(ConfigError, match="or its key was"):
        in_file(tmp_path).get("a")


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2, "secrets": {}}', '{"format": 1, "secrets": {"a": 1}}'])
def test_a_broken_file_is_an_error_and_is_not_written_over(content: str, tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text(content)

    for use in (in_file(tmp_path).names, lambda: in_file(tmp_path).set("a", "1")):
        with pytest.raises(ConfigError, match="cannot be read"):
            use()

    assert (tmp_path / "secrets.json").read_text() == content


@pytest.mark.parametrize("name", ["", "a b", "a}", "a:b", "../a", "-a", "x" * 129, "ä"])
def test_names_that_a_reference_could_not_hold_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be a secret's name"):
        in_file(tmp_path).set(name, "1")


@pytest.mark.parametrize("value", ["", "a\0b", "x" * (2**16 + 1), "\ud800"])
def test_values_that_no_variable_could_hold_are_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        in_file(tmp_path).set("a", value)

    assert caught.value.__cause__ is None
    assert in_file(tmp_path).names() == []


def test_a_keyring_that_works_keeps_the_values(tmp_path: Path) -> None:
    ring = Ring()
    secrets = Secrets(tmp_path, keyring=lambda: ring)
    elsewhere = Secrets(tmp_path / "other", keyring=lambda: ring)

    assert secrets.set("a", VALUE) == "keyring"
    elsewhere.set("a", "another")
    before = document(tmp_path)
    secrets.set("a", VALUE)

    assert (secrets.get("a"), elsewhere.get("a")) == (VALUE, "another")
    assert VALUE not in str(document(tmp_path))
    assert document(tmp_path) != before
    assert not (tmp_path / "seal.key").exists()
    secrets.remove("a")
    assert list(ring.kept.values()) == ["another"]


def test_a_keyring_that_does_not_work_is_as_good_as_none(tmp_path: Path) -> None:
    secrets = Secrets(tmp_path, keyring=lambda: Ring(broken=True))

    assert secrets.set("a", VALUE) == "file"
    assert secrets.get("a") == VALUE


def test_a_keyring_that_is_gone_is_named_as_the_reason(tmp_path: Path) -> None:
    ring = Ring()
    Secrets(tmp_path, keyring=lambda: ring).set("a", VALUE)
    ring.broken = True

    with pytest.raises(ConfigError, match="in the system's keyring, which does not give it"):
        in_file(tmp_path).get("a")
    with pytest.raises(ConfigError, match="does not forget"):
        Secrets(tmp_path, keyring=lambda: ring).remove("a")
    assert in_file(tmp_path).names() == ["a"]


def test_what_is_kept_in_the_file_is_removed_without_the_keyring(tmp_path: Path) -> None:
    in_file(tmp_path).set("a", VALUE)

    assert Secrets(tmp_path, keyring=lambda: Ring(broken=True)).remove("a")
    assert in_file(tmp_path).names() == []


def test_who_changes_a_secret_is_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    def look() -> None:
        with open(tmp_path / "new" / "home" / "secrets.lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        asked.append("while it changes")

    Secrets(tmp_path / "new" / "home", keyring=look).set("a", VALUE)

    assert asked == ["while it changes"]


def test_the_file_is_on_the_disk_before_it_counts_and_lists_secrets_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    for name in "ba":
        in_file(tmp_path).set(name, VALUE)
        monkeypatch.setattr(os, "fsync", synced.append)

    assert synced
    assert list(document(tmp_path)["secrets"]) == ["a", "b"]


def test_processes_that_set_secrets_at_once_lose_none(tmp_path: Path) -> None:
    in_file(tmp_path).set("first", "1")
    code = (
        "import sys, pathlib; from trunkline.config.secrets import Secrets\n"
        "for n in range(10): Secrets(pathlib.Path(sys.argv[1]), keyring=lambda: None).set(f'{sys.argv[2]}{n}', 'v')"
    )

    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]

    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(in_file(tmp_path).names()) == 31


def test_servers_never_share_the_name_of_a_secret() -> None:
    assert name_for("weather", "API_KEY") == "weather.API_KEY"
    assert len({name_for(server, "K") for server in ("é", "è", "_", "a:b", "a_b")}) == 5
    assert name_for("a.b", "c") != name_for("a", "b.c")


# Its keys.


def write_as_before(home: Path, **values: str) -> None:
    """The file as it was before there were data keys."""
    key = AESGCM(hmac.digest(seal_key(home), b"trunkline secrets 1", "sha256"))
    entries: dict[str, Any] = {}
    for name, value in values.items():
        nonce = os.urandom(12)
        sealed = nonce + key.encrypt(nonce, value.encode(), b"trunkline secret\0" + name.encode())
        entries[name] = {"sealed": base64.b64encode(sealed).decode()}
    (home / "secrets.json").write_text(json.dumps({"format": 1, "secrets": entries}))


def test_what_an_earlier_version_kept_is_read_and_is_a_record_once_it_is_changed(tmp_path: Path) -> None:
    write_as_before(tmp_path, a="1", b="2")
    secrets = in_file(tmp_path)

    assert (secrets.get("a"), secrets.get("b")) == ("1", "2")
    secrets.set("a", "3")

    assert [sorted(entry) for entry in document(tmp_path)["secrets"].values()] == [["record"], ["sealed"]]
    assert (secrets.get("a"), secrets.get("b")) == ("3", "2")
    assert secrets.rotate() == (2, [])
    assert [sorted(entry) for entry in document(tmp_path)["secrets"].values()] == [["record"], ["record"]]
    assert (secrets.get("a"), secrets.get("b")) == ("3", "2")


def test_a_rotation_leaves_one_new_key_and_what_cannot_be_opened(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    assert secrets.rotate() == (0, [])
    assert not (tmp_path / "secrets.json").exists()
    for name in "abc":
        secrets.set(name, VALUE + name)
    found = document(tmp_path)
    [before] = found["keys"]
    found["secrets"]["b"] = found["secrets"]["a"]
    (tmp_path / "secrets.json").write_text(json.dumps(found))

    assert secrets.rotate() == (2, ["b"])

    kids = [key["kid"] for key in document(tmp_path)["keys"]]
    assert (len(kids), before["kid"] in kids) == (2, True)
    assert document(tmp_path)["secrets"]["b"] == found["secrets"]["b"]
    assert (secrets.get("a"), secrets.get("c")) == (VALUE + "a", VALUE + "c")
    secrets.remove("b")
    secrets.rotate()
    assert len(document(tmp_path)["keys"]) == 1


def test_a_rotation_takes_keys_away_that_nothing_needs(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    (first,) = document(tmp_path)["keys"]
    secrets.remove("a")

    assert secrets.rotate() == (0, [])
    (second,) = document(tmp_path)["keys"]
    assert second["kid"] != first["kid"]

    secrets.set("a", VALUE)
    found = document(tmp_path)
    record = found["secrets"]["a"]["record"]
    found["secrets"]["a"]["record"] = f"{record[:4]}%{record[4:]}"  # which is nobody's record any more
    (tmp_path / "secrets.json").write_text(json.dumps(found))
    assert secrets.rotate() == (0, ["a"])
    assert second["kid"] not in [key["kid"] for key in document(tmp_path)["keys"]]


def test_each_key_is_newer_than_all_before(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    found = document(tmp_path)
    found["secrets"]["b"] = found["secrets"]["a"]
    (tmp_path / "secrets.json").write_text(json.dumps(found))
    secrets.rotate()
    secrets.rotate()

    first, second = sorted(key["created"] for key in document(tmp_path)["keys"])
    assert second == first + 2


def test_what_an_earlier_version_kept_is_sealed_anew_at_once_and_refused_when_changed(tmp_path: Path) -> None:
    write_as_before(tmp_path, a="1", b="2")
    found = document(tmp_path)
    sealed = found["secrets"]["b"]["sealed"]
    found["secrets"]["b"] = {"sealed": f"{sealed[:4]}%{sealed[4:]}"}
    found["secrets"]["c"] = found["secrets"]["a"]
    (tmp_path / "secrets.json").write_text(json.dumps(found))
    secrets = in_file(tmp_path)

    assert secrets.rotate() == (1, ["b", "c"])
    assert secrets.get("a") == "1"


def test_another_master_key_takes_over_while_both_open_everything(tmp_path: Path) -> None:
    old, new = {"TRUNKLINE_MASTER_KEY": "a1" * 32}, {"TRUNKLINE_MASTER_KEY": "b2" * 32}
    before, after = (Secrets(tmp_path, keyring=lambda: None, env=env) for env in (old, new))
    before.set("a", VALUE)
    with pytest.raises(ConfigError, match="were sealed with another master key than TRUNKLINE_MASTER_KEY"):
        after.set("b", VALUE)
    assert not (tmp_path / "seal.key").exists()

    before.wrap_for(bytes.fromhex("b2" * 32))

    assert before.get("a") == after.get("a") == VALUE
    with pytest.raises(ConfigError, match="have a newer master key"):
        before.rotate()
    assert after.rotate() == (1, [])
    assert after.get("a") == VALUE
    with pytest.raises(ConfigError, match="or its key was"):
        before.get("a")


def test_what_an_earlier_version_kept_opens_with_a_new_master_key_too(tmp_path: Path) -> None:
    write_as_before(tmp_path, a="1")
    secrets = in_file(tmp_path)

    secrets.wrap_for(b"n" * 32)

    (tmp_path / "seal.key").write_bytes(b"n" * 32)
    assert secrets.get("a") == "1"


def test_a_variable_that_comes_later_leaves_readable_what_the_file_opens(tmp_path: Path) -> None:
    in_file(tmp_path).set("a", VALUE)
    secrets = Secrets(tmp_path, keyring=lambda: None, env={"TRUNKLINE_MASTER_KEY": "a1" * 32})

    assert secrets.get("a") == VALUE


def test_a_missing_key_is_told_and_not_made_again(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    (tmp_path / "seal.key").unlink()

    for use in (lambda: secrets.get("a"), lambda: secrets.set("b", VALUE), secrets.rotate):
        with pytest.raises(ConfigError, match=r"The master key .*seal\.key is missing"):
            use()
    assert not (tmp_path / "seal.key").exists()


def test_keys_are_wrapped_for_a_new_master_key_once_each(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.wrap_for(b"n" * 32)
    assert not (tmp_path / "secrets.json").exists()
    secrets.set("a", VALUE)
    (first,) = document(tmp_path)["keys"]

    for _ in range(2):
        secrets.wrap_for(b"n" * 32)

    keys = document(tmp_path)["keys"]
    assert [key["kid"] for key in keys] == [first["kid"]] * 2
    assert keys[0]["master"] == first["master"] != keys[1]["master"]
    assert document(tmp_path)["master"] == keys[1]["master"]


def test_a_new_master_key_leaves_values_as_they_are_and_keys_that_nobody_opens(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    found = document(tmp_path)
    lost = {"kid": "lost", "master": "nobody's", "wrapped": "AAAA", "created": 0}
    found["keys"].append(lost)
    (tmp_path / "secrets.json").write_text(json.dumps(found))

    secrets.wrap_for(b"n" * 32)

    assert document(tmp_path)["secrets"] == found["secrets"]
    assert [key for key in document(tmp_path)["keys"] if key["kid"] == "lost"] == [lost]


def test_a_new_master_key_opens_keys_with_which_nothing_is_sealed_now(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    secrets.remove("a")

    secrets.wrap_for(b"n" * 32)

    (tmp_path / "seal.key").write_bytes(b"n" * 32)
    secrets.set("b", VALUE)
    assert secrets.get("b") == VALUE


def test_new_values_are_sealed_with_the_newest_key(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    secrets.set("a", VALUE)
    secrets.set("b", VALUE)
    found = document(tmp_path)
    found["secrets"]["b"]["record"] = found["secrets"]["a"]["record"]
    (tmp_path / "secrets.json").write_text(json.dumps(found))
    secrets.rotate()
    old, new = sorted(document(tmp_path)["keys"], key=lambda key: key["created"])
    secrets.set("c", VALUE)

    assert new["created"] == old["created"] + 1
    assert kid_of(base64.b64decode(document(tmp_path)["secrets"]["c"]["record"])) == new["kid"]


def test_what_is_kept_in_a_keyring_is_not_counted_as_sealed(tmp_path: Path) -> None:
    ring = Ring()
    Secrets(tmp_path, keyring=lambda: ring).set("a", VALUE)
    secrets = in_file(tmp_path)
    assert (secrets.sealed, secrets.rotate()) == (0, (0, []))
    secrets.set("b", VALUE)

    assert (secrets.sealed, secrets.rotate()) == (1, (1, []))
    assert Secrets(tmp_path, keyring=lambda: ring).get("a") == VALUE


@pytest.mark.parametrize("answer", ["another", VALUE[:4], ""])
def test_a_keyring_that_gives_back_something_else_keeps_nothing(answer: str, tmp_path: Path) -> None:
    class Forgetful(Ring):
        def get_password(self, service: str, username: str) -> str | None:
            return answer

    secrets = Secrets(tmp_path, keyring=Forgetful)

    assert secrets.set("a", VALUE) == "file"
    assert in_file(tmp_path).get("a") == VALUE


def test_what_a_keyring_does_not_give_is_no_secret(tmp_path: Path) -> None:
    class Locked(Ring):
        def get_password(self, service: str, username: str) -> str | None:
            raise RuntimeError("locked")

    ring = Ring()
    Secrets(tmp_path, keyring=lambda: ring).set("a", VALUE)
    ring.kept.clear()
    for one in (ring, Locked()):
        with pytest.raises(ConfigError, match="which does not give it"):
            Secrets(tmp_path, keyring=lambda one=one: one).get("a")


@pytest.mark.parametrize(("beyond", "read"), [(0, True), (1, False)])
def test_the_file_may_have_so_many_bytes(beyond: int, read: bool, tmp_path: Path) -> None:
    content = b'{"format": 1, "secrets": {}}'
    with open(tmp_path / "secrets.json", "wb") as file:
        file.write(content + b" " * (16 * 2**20 - len(content) + beyond))

    if read:
        assert in_file(tmp_path).names() == []
    else:
        with pytest.raises(ConfigError, match="too large"):
            in_file(tmp_path).names()


@pytest.mark.parametrize(
    "content",
    [
        '{"format": 3, "secrets": {}, "keys": [], "master": ""}',
        '{"format": 1, "secrets": []}',
        '{"format": 1, "secrets": {"a": {}, "b": 1}}',
        '{"format": 2, "secrets": {}, "keys": [{"kid": "", "master": "", "wrapped": "%", "created": 1}], "master": ""}',
    ],
)
def test_a_file_of_another_kind_is_an_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text(content)

    with pytest.raises(ConfigError, match="cannot be read"):
        in_file(tmp_path).names()


@pytest.mark.parametrize(("name", "value"), [("x" * 128, "1"), ("_a.b-c", "x" * 2**16), ("0", "ü" * 2**15)])
def test_names_and_values_may_be_so_long(name: str, value: str, tmp_path: Path) -> None:
    in_file(tmp_path).set(name, value)

    assert in_file(tmp_path).get(name) == value


def test_a_value_is_as_long_as_its_bytes_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="64 KiB"):
        in_file(tmp_path).set("a", "ü" * (2**15 + 1))


def test_who_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    secrets = in_file(tmp_path)
    assert secrets.remove("a") is False
    assert not (tmp_path / "secrets.json").exists()
    secrets.set("a", VALUE)
    before = (tmp_path / "secrets.json").stat().st_ino
    secrets.remove("b")

    assert (tmp_path / "secrets.json").stat().st_ino == before


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")

    with pytest.raises(ConfigError, match="cannot be written"):
        in_file(tmp_path / "home").set("a", VALUE)


def test_a_secret_of_the_home_folder_is_looked_up_with_what_is_wrong(tmp_path: Path) -> None:
    env = {"TRUNKLINE_HOME": str(tmp_path), "TRUNKLINE_MASTER_KEY": "a1" * 32}
    Secrets(tmp_path, keyring=lambda: None, env=env).set("a", VALUE)

    assert look_up("a", env) == (VALUE, "")
    assert look_up("b", env) == (None, "")
    value, problem = look_up("a", {**env, "TRUNKLINE_MASTER_KEY": "b2" * 32})
    assert value == ""
    assert "The secret a was changed" in problem


def test_names_that_would_be_too_long_or_odd_are_told_apart_by_what_was_lost() -> None:
    assert name_for("a", "b.c") != "a.b.c"
    assert name_for(".a", "B").startswith("a.B-")
    assert len(name_for("é" * 300, "K")) == 100 + 1 + 12


# In the configuration.


def config(home: Path, **server: Any) -> Any:
    return parse({"servers": {"a": server, "other": {"command": "y"}}}, env={"TRUNKLINE_HOME": str(home)}).servers["a"]


@pytest.mark.parametrize("written", ["${secret:a.KEY}", "${secrets:a.KEY}"])
def test_a_reference_stands_for_a_secret(written: str, tmp_path: Path) -> None:
    in_file(tmp_path).set("a.KEY", VALUE)

    local = config(tmp_path, command="x", env={"KEY": written})
    far = config(tmp_path, url="http://h", headers={"Authorization": f"Bearer {written}"})

    assert (local.env, local.problem) == ({"KEY": VALUE}, "")
    assert far.headers == {"Authorization": f"Bearer {VALUE}"}
    assert VALUE not in f"{local!r} {far!r} {local.address} {far.address}"


def test_a_missing_secret_concerns_its_server_alone_and_says_what_to_do(tmp_path: Path) -> None:
    made = config(tmp_path, command="x", env={"K": "${secret:nope}", "L": "${env:GONE}"})

    assert "the secret nope is not set. Run `trunkline secret set nope`." in made.problem
    assert "GONE is not set" in made.problem
    assert config(tmp_path, command="x", env={"K": "${secret:nope:-none}"}).env == {"K": "none"}
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_was_tampered_with_makes_its_server_unreachable(tmp_path: Path) -> None:
    in_file(tmp_path).set("k", VALUE)
    (tmp_path / "secrets.json").write_text('{"format": 1, "secrets": {"k": {"sealed": "AAAA"}}}')

    assert "The secret k was changed" in config(tmp_path, command="x", env={"K": "${secret:k}"}).problem


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "args": ["--key", "${secret:k}"]},
        {"command": "${secret:k}"},
        {"command": "x", "cwd": "/${secret:k}"},
        {"url": "http://h/?key=${secret:k}"},
    ],
)
def test_a_secret_is_not_put_where_others_can_read_it(server: Any, tmp_path: Path) -> None:
    in_file(tmp_path).set("k", VALUE)

    made = config(tmp_path, **server)

    assert "the secret k does not belong in" in made.problem
    assert VALUE not in f"{made.command} {made.args} {made.cwd} {made.url}"


def test_a_section_may_hold_a_secret_where_it_shows_nothing(tmp_path: Path) -> None:
    in_file(tmp_path).set("k", VALUE)
    env = {"TRUNKLINE_HOME": str(tmp_path)}

    assert parse({"gateway": {"token": "${secret:k}"}}, env=env).gateway.token == VALUE
    with pytest.raises(ConfigError, match="the secret nope is not set"):
        parse({"gateway": {"token": "${secret:nope}"}}, env=env)
    with pytest.raises(ConfigError, match="does not belong in `host`"):
        parse({"gateway": {"host": "${secret:k}"}}, env=env)
