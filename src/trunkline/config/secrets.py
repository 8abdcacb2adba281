"""Secrets by name: in the system's keyring where there is one, else in an encrypted file in the home folder."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import importlib
import json
import os
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from trunkline.config.options import default_home
from trunkline.errors import ConfigError
from trunkline.foreign import Raised, attempt_now
from trunkline.storage.files import replace_file, seal_key

FILE = "secrets.json"
"""Names, and the values that no keyring has; it changes whenever a secret does."""
LARGEST_VALUE = 64 * 2**10
LARGEST_FILE = 16 * 2**20
FORMAT = 1
_NONCE = 12


class Keyring(Protocol):
    """The part of a keyring that we use."""

    def get_password(self, service: str, username: str) -> str | None: ...
    def set_password(self, service: str, username: str, password: str) -> None: ...
    def delete_password(self, service: str, username: str) -> None: ...


def system_keyring() -> Keyring | None:
    """The system's keyring, if the package `keyring` is installed and found one that works."""

    def find() -> Keyring | None:
        found: Any = importlib.import_module("keyring").get_keyring()
        return cast("Keyring", found) if found.priority >= 1 else None

    keyring = attempt_now(find)  # it fails in ways of its own on machines without a desktop
    return None if isinstance(keyring, Raised) else keyring


def look_up(name: str, env: Mapping[str, str]) -> tuple[str | None, str]:
    """A secret of the home folder: its value, if there is one, and what is wrong with it."""
    try:
        return Secrets(default_home(env)).get(name), ""
    except ConfigError as error:
        return "", str(error)


class Secrets:
    """The secrets of one home folder. Each is bound to its name; one that was tampered with is an error."""

    def __init__(self, home: Path, *, keyring: Callable[[], Keyring | None] = system_keyring) -> None:
        self._home, self._keyring = home, keyring
        self._service = f"trunkline {home}"

    @property
    def file(self) -> Path:
        """Where names are kept."""
        return self._home / FILE

    def names(self) -> list[str]:
        """The names of all secrets, sorted."""
        return sorted(self._read())

    def get(self, name: str) -> str | None:
        """A secret; `None` when there is none of that name, ConfigError when it cannot be read."""
        entry = self._read().get(name)
        if entry is None:
            return None
        sealed = entry.get("sealed")
        return self._unseal(name, sealed) if isinstance(sealed, str) else self._from_keyring(name)

    def set(self, name: str, value: str) -> str:
        """Keep a secret, in the place of what was there; says where it went: `keyring` or `file`."""
        check_name(name)
        _check_value(name, value)
        with self._changing() as entries:
            if self._to_keyring(name, value):
                # The stamp lets those who watch the file see that the value is another.
                entries[name] = {"keyring": os.urandom(8).hex()}
                return "keyring"
            entries[name] = {"sealed": self._seal(name, value)}
            return "file"

    def remove(self, name: str) -> bool:
        """Forget a secret; false when there is none."""
        with self._changing() as entries:
            entry = entries.pop(name, None)
            keyring = self._keyring() if entry is not None and "keyring" in entry else None
            if keyring is not None:
                outcome = attempt_now(keyring.delete_password, self._service, name)
                if isinstance(outcome, Raised):
                    hint = f"It says: {type(outcome.error).__name__}."
                    raise ConfigError(f"The keyring does not forget the secret {name}.", hint=hint)
        return entry is not None

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

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            if self.file.stat().st_size > LARGEST_FILE:
                raise ValueError("it is too large")
            document = json.loads(self.file.read_bytes())
            entries = document["secrets"] if document["format"] == FORMAT else None
            if not isinstance(entries, dict) or not all(isinstance(one, dict) for one in entries.values()):  # type: ignore[reportUnknownVariableType]
                raise ValueError("it is of another kind")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(f"The secrets in {self.file} cannot be read: {error}.") from error
        return cast("dict[str, dict[str, Any]]", entries)

    @contextmanager
    def _changing(self) -> Generator[dict[str, dict[str, Any]]]:
        """The entries, written when the body ends well; one process at a time."""
        import fcntl

        try:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(self._home / "secrets.lock", os.O_RDWR | os.O_CREAT, 0o600), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                entries = self._read()
                before = dict(entries)
                yield entries
                if entries != before:
                    self._write(entries)
        except OSError as error:
            raise ConfigError(f"{self.file} cannot be written: {error.strerror or error}.") from error

    def _write(self, entries: Mapping[str, Any]) -> None:
        document = json.dumps({"format": FORMAT, "secrets": entries}, indent=1, sort_keys=True)
        replace_file(self.file, document.encode(), sync=True)

    def _seal(self, name: str, value: str) -> str:
        nonce = os.urandom(_NONCE)
        return base64.b64encode(nonce + self._cipher().encrypt(nonce, value.encode(), _bound(name))).decode()

    def _unseal(self, name: str, sealed: str) -> str:
        from cryptography.exceptions import InvalidTag

        try:
            content = base64.b64decode(sealed, validate=True)
            return self._cipher().decrypt(content[:_NONCE], content[_NONCE:], _bound(name)).decode()
        except (InvalidTag, binascii.Error, ValueError) as error:
            raise ConfigError(
                f"The secret {name} was changed by somebody else, or its key was.",
                hint=f"Run `trunkline secret set {name}` again.",
            ) from error

    def _cipher(self) -> Any:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        # A key of its own, so that what is sealed elsewhere with the same file can never pass for a secret.
        return AESGCM(hmac.digest(seal_key(self._home), b"trunkline secrets 1", "sha256"))


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


def _bound(name: str) -> bytes:
    return b"trunkline secret\0" + name.encode()
