"""Secrets by name: in the system's keyring where there is one, else in an encrypted file in the home folder."""

from __future__ import annotations

import base64
import binascii
import copy
import hashlib
import hmac
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from trunkline.config.master_key import Keyring, MasterKey, keyring_service, system_keyring
from trunkline.config.options import default_home
from trunkline.errors import ConfigError
from trunkline.foreign import Raised, attempt_now
from trunkline.storage.files import replace_file, seal_key, seal_key_file
from trunkline.storage.sealing import DataKey, WrappedKey, kid_of, master_id, new_data_key, seal, unseal, unwrap, wrap

FILE = "secrets.json"
"""Names, and the values that no keyring has; it changes whenever a secret does."""
LARGEST_VALUE = 64 * 2**10
LARGEST_FILE = 16 * 2**20
FORMAT = 2
FORMAT_BEFORE = 1
"""Without data keys; such a file is read, and written in the newer one."""
_NONCE = 12


@dataclass
class _Document:
    """The file: values as sealed records, and the data keys they are sealed with, each wrapped by the master key."""

    entries: dict[str, dict[str, Any]]
    keys: list[WrappedKey]
    master: str = ""
    """The id of the master key that wraps new data keys."""


def look_up(name: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    """A secret of the home folder: its value, if there is one, and what is wrong with it."""
    try:
        return Secrets(default_home(env), env=env).get(name), ""
    except ConfigError as error:
        return "", str(error)


class Secrets:
    """The secrets of one home folder. Each is bound to its name; one that was tampered with is an error."""

    def __init__(
        self,
        home: Path,
        *,
        keyring: Callable[[], Keyring | None] = system_keyring,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self._home, self._keyring = home, keyring
        self._service = keyring_service(home)
        self.master_key = MasterKey(home, env=env, keyring=keyring)

    @property
    def file(self) -> Path:
        """Where names are kept."""
        return self._home / FILE

    def names(self) -> list[str]:
        """The names of all secrets, sorted."""
        return sorted(self._read().entries)

    def get(self, name: str) -> str | None:
        """A secret; `None` when there is none of that name, ConfigError when it cannot be read."""
        document = self._read()
        entry = document.entries.get(name)
        if entry is None:
            return None
        return self._unseal(document, name, entry) if _is_sealed(entry) else self._from_keyring(name)

    def set(self, name: str, value: str) -> str:
        """Keep a secret, in the place of what was there; says where it went: `keyring` or `file`."""
        check_name(name)
        _check_value(name, value)
        with self._changing() as document:
            if self._to_keyring(name, value):
                # The stamp lets those who watch the file see that the value is another.
                document.entries[name] = {"keyring": os.urandom(8).hex()}
                return "keyring"
            document.entries[name] = _sealed(self._newest_key(document), name, value)
            return "file"

    def remove(self, name: str) -> bool:
        """Forget a secret; false when there is none."""
        with self._changing() as document:
            entry = document.entries.pop(name, None)
            keyring = self._keyring() if entry is not None and "keyring" in entry else None
            if keyring is not None:
                outcome = attempt_now(keyring.delete_password, self._service, name)
                if isinstance(outcome, Raised):
                    hint = f"It says: {type(outcome.error).__name__}."
                    raise ConfigError(f"The keyring does not forget the secret {name}.", hint=hint)
        return entry is not None

    @property
    def sealed(self) -> int:
        """How many values are sealed in the file."""
        return sum(map(_is_sealed, self._read().entries.values()))

    def rotate(self) -> tuple[int, list[str]]:
        """Seal every value with a new data key, all at once: how many, and the names of those that do not open."""
        with self._changing() as document:
            if not document.keys and not any(map(_is_sealed, document.entries.values())):
                return 0, []
            key = self._add_key(document)
            done, lost = self._seal_anew(document, key, lambda _: True)
            wanted = {key.kid, *(_kid_of(document.entries[name]) for name in lost)}
            document.keys = [one for one in document.keys if one.kid in wanted]
            return done, lost

    def wrap_for(self, master: bytes) -> None:
        """Have every value open with another master key, too, which wraps new data keys from now on."""
        with self._changing() as document:
            if not document.keys and not any(map(_is_sealed, document.entries.values())):
                return
            masters = self._masters()
            # What was sealed before there were data keys hangs on the master key itself.
            self._seal_anew(document, self._newest_key(document), lambda entry: "record" not in entry)
            for kid, created in {(one.kid, one.created) for one in document.keys}:
                key = unwrap(masters, kid, document.keys)
                if key is not None and not any(
                    (one.kid, one.master) == (kid, master_id(master)) for one in document.keys
                ):
                    document.keys.append(wrap(master, key, created))
            document.master = master_id(master)

    # The keyring.

    def _to_keyring(self, name: str, value: str) -> bool:
        keyring = self._keyring()
        if keyring is None:
            return False
        # A keyring that does not work is as good as none.
        if isinstance(attempt_now(keyring.set_password, self._service, name, value), Raised):
            return False
        return attempt_now(keyring.get_password, self._service, name) == value

    def _from_keyring(self, name: str) -> str:
        keyring = self._keyring()
        value = attempt_now(keyring.get_password, self._service, name) if keyring is not None else None
        if value is None or isinstance(value, Raised):  # what it says of the failure may hold anything
            raise ConfigError(
                f"The secret {name} is in the system's keyring, which does not give it.",
                hint=f"Unlock it, or run `trunkline secret set {name}` again.",
            )
        return value

    # The file.

    def _read(self) -> _Document:
        try:
            if self.file.stat().st_size > LARGEST_FILE:
                raise ValueError("it is too large")
            document = json.loads(self.file.read_bytes())
            entries = document["secrets"] if document["format"] in (FORMAT, FORMAT_BEFORE) else None
            if not isinstance(entries, dict) or not all(isinstance(one, dict) for one in entries.values()):  # type: ignore[reportUnknownVariableType]
                raise ValueError("it is of another kind")
            found = _Document(cast("dict[str, dict[str, Any]]", entries), [])
            if document["format"] == FORMAT:
                found.keys, found.master = [_key_of(one) for one in document["keys"]], str(document["master"])
            return found
        except FileNotFoundError:
            return _Document({}, [])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"The secrets in {self.file} cannot be read: {error}.") from error

    @contextmanager
    def _changing(self) -> Generator[_Document]:
        """The document, written when the body ends well; one process at a time."""
        import fcntl

        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(self._home / "secrets.lock", os.O_RDWR | os.O_CREAT, 0o600), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                document = self._read()
                before = copy.deepcopy(document)
                yield document
                if document != before:
                    self._write(document)
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be written: {error.strerror or error}.") from error

    def _write(self, document: _Document) -> None:
        keys = [
            {"kid": one.kid, "master": one.master, "wrapped": _text(one.wrapped), "created": one.created}
            for one in document.keys
        ]
        said = {"format": FORMAT, "master": document.master, "keys": keys, "secrets": document.entries}
        replace_file(self.file, json.dumps(said, indent=1, sort_keys=True).encode(), sync=True)

    # Records.

    def _masters(self, *, make: bool = False) -> dict[str, bytes]:
        """The master keys at hand, by their ids: also that of the file, where a variable came later."""
        found = self.master_key.read(make=make)
        if seal_key_file(self._home).exists():
            found.append(seal_key(self._home))
        return {master_id(one): one for one in found}

    def _newest_key(self, document: _Document) -> DataKey:
        if not document.keys:
            return self._add_key(document)
        newest = max(document.keys, key=lambda one: one.created)
        key = unwrap(self._masters(), newest.kid, document.keys)
        if key is None:
            where, hint = self.master_key.where, "Bring that key; another one opens nothing."
            raise ConfigError(
                f"The secrets in {self.file} were sealed with another master key than {where}.", hint=hint
            )
        return key

    def _add_key(self, document: _Document) -> DataKey:
        masters = self._masters(make=not any(map(_is_sealed, document.entries.values())))
        document.master = document.master or next(iter(masters))
        if document.master not in masters:
            hint = "Give that one to every gateway and every command, as `trunkline keys rotate --master` said."
            raise ConfigError(f"The secrets have a newer master key than {self.master_key.where}.", hint=hint)
        key, created = new_data_key(), max((one.created for one in document.keys), default=0) + 1
        document.keys.append(wrap(masters[document.master], key, created))
        return key

    def _seal_anew(
        self, document: _Document, key: DataKey, which: Callable[[Mapping[str, Any]], bool]
    ) -> tuple[int, list[str]]:
        lost: list[str] = []
        chosen = [name for name, entry in document.entries.items() if _is_sealed(entry) and which(entry)]
        for name in chosen:
            try:
                document.entries[name] = _sealed(key, name, self._unseal(document, name, document.entries[name]))
            except ConfigError:
                lost.append(name)
        return len(chosen) - len(lost), lost

    def _unseal(self, document: _Document, name: str, entry: Mapping[str, Any]) -> str:
        try:
            masters = self._masters()
            if "record" not in entry:
                return _unseal_before(masters.values(), name, base64.b64decode(entry["sealed"], validate=True))
            record = base64.b64decode(entry["record"], validate=True)
            key = unwrap(masters, kid_of(record), document.keys)
            if key is None:
                raise ValueError("another key")
            return unseal(key, _bound(name), record).decode()
        except (binascii.Error, TypeError, ValueError) as error:
            raise ConfigError(
                f"The secret {name} was changed by somebody else, or its key was.",
                hint=f"Run `trunkline secret set {name}` again.",
            ) from error


def _is_sealed(entry: Mapping[str, Any]) -> bool:
    return "record" in entry or "sealed" in entry


def _sealed(key: DataKey, name: str, value: str) -> dict[str, Any]:
    return {"record": _text(seal(key, _bound(name), value.encode()))}


def _unseal_before(masters: Iterable[bytes], name: str, content: bytes) -> str:
    """A value as it was sealed before there were data keys."""
    for master in masters:
        key = DataKey("", hmac.digest(master, b"trunkline secrets 1", "sha256"))
        try:
            return key.decrypt(content[:_NONCE], content[_NONCE:], b"trunkline secret\0" + name.encode()).decode()
        except ValueError:
            continue
    raise ValueError("another key")


def _kid_of(entry: Mapping[str, Any]) -> str:
    try:
        return kid_of(base64.b64decode(entry.get("record", ""), validate=True))
    except (binascii.Error, TypeError, ValueError):
        return ""


def _key_of(said: Mapping[str, Any]) -> WrappedKey:
    wrapped = base64.b64decode(said["wrapped"], validate=True)
    return WrappedKey(str(said["kid"]), str(said["master"]), wrapped, int(said["created"]))


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def name_for(server: str, variable: str) -> str:
    """What the secret of one server is called: no other server's has the same name."""
    written = f"{server}.{variable}"
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", written).lstrip(".-")
    if plain == written and "." not in variable:
        return written
    # What was lost must still tell two names apart.
    return f"{plain[:100]}-{hashlib.sha256(f'{len(server)} {written}'.encode()).hexdigest()[:12]}"


def check_name(name: str) -> None:
    """ConfigError for a name that `${secret:NAME}` could not hold."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", name):
        raise ConfigError(
            f"{name!r} cannot be a secret's name.", hint="Use letters, digits, dots, dashes, underscores."
        )


def _check_value(name: str, value: str) -> None:
    if not value or "\0" in value or len(value.encode(errors="replace")) > LARGEST_VALUE:
        raise ConfigError(f"The secret {name} must be a text of 1 byte to {LARGEST_VALUE // 2**10} KiB.")
    try:
        value.encode()
    except UnicodeEncodeError:
        # Without its cause, which holds the value.
        raise ConfigError(f"The secret {name} is not a text.") from None


def _bound(name: str) -> tuple[str, ...]:
    """What a record is bound to, as those of the store are: the vault, the user, the server, the issuer, the field."""
    return ("home", "", "", "", f"secret:{name}")
