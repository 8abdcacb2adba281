"""The master key behind all that is sealed: from the configuration, a variable, a command, the keyring or a file."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from trunkline.errors import ConfigError
from trunkline.foreign import Raised, attempt_now
from trunkline.storage.files import replace_file, seal_key, seal_key_file

VARIABLE = "TRUNKLINE_MASTER_KEY"
KEYRING = "keyring"
"""Said instead of a key: it is in the system's keyring."""
_USERNAME = "master key"
COMMAND_TIMEOUT = 60.0
"""Seconds that a command has to give the key; a person may have to unlock something."""


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


def keyring_service(home: Path) -> str:
    """Under what a keyring keeps the secrets of one home folder."""
    return f"trunkline {home}"


class MasterKey:
    """The master key from where the operator keeps it. Reading it may take a while: a command, a keyring."""

    def __init__(
        self,
        home: Path,
        key: str = "",
        command: str = "",
        *,
        env: Mapping[str, str] = os.environ,
        keyring: Callable[[], Keyring | None] = system_keyring,
    ) -> None:
        if key and command:
            raise ConfigError("[store] has a `key` and a `key_command`.", hint="Say one of them.")
        self._home, self._keyring = home, keyring
        self._key, self._command = key or (env.get(VARIABLE, "") if not command else ""), command
        self._named = "[store] `key`" if key else VARIABLE

    @property
    def where(self) -> str:
        """Where it comes from, for people."""
        if self._command:
            return "[store] `key_command`"
        if self._key == KEYRING:
            return "the system's keyring"
        return self._named if self._key else str(seal_key_file(self._home))

    @property
    def is_ours(self) -> bool:
        """Whether we keep it, and so can put another in its place: in a file, or in the keyring."""
        return not self._command and self._key in ("", KEYRING)

    def read(self, *, make: bool = False) -> list[bytes]:
        """The key, and its successor while one takes its place; a missing one is made only where nothing needs it."""
        if self._command:
            return [key_of(_output(self._command), self.where)]
        if self._key == KEYRING:
            return self._from_keyring(make=make)
        if self._key:
            return [key_of(self._key, self.where)]
        found = [seal_key(self._home, make=make)]
        next = self._successor
        return [*found, seal_key(self._home, file=next)] if next.exists() else found

    def succeed(self) -> bytes:
        """A new key beside the one that is used, or the one that an earlier attempt left; it is kept from now on."""
        if self._key == KEYRING:
            found = self._from_keyring(make=False)
            if len(found) == 1:
                found.append(os.urandom(32))
                self._to_keyring(found)
            return found[1]
        if not self._successor.exists():
            replace_file(self._successor, os.urandom(32), sync=True)
        return seal_key(self._home, file=self._successor)

    def adopt(self) -> None:
        """Have the successor be the key: nothing needs the one before it any more."""
        if self._key == KEYRING:
            self._to_keyring(self._from_keyring(make=False)[-1:])
        elif self._successor.exists():
            os.replace(self._successor, seal_key_file(self._home))

    @property
    def _successor(self) -> Path:
        return seal_key_file(self._home).with_suffix(".key.next")

    def _from_keyring(self, *, make: bool) -> list[bytes]:
        keyring = self._keyring()
        kept = attempt_now(keyring.get_password, keyring_service(self._home), _USERNAME) if keyring else None
        if keyring is None or isinstance(kept, Raised):  # what it says of the failure may hold anything
            hint = "Unlock it; it wants the package `keyring`."
            raise ConfigError("The master key is in the system's keyring, which does not give it.", hint=hint)
        if kept:
            return [key_of(one, self.where) for one in kept.split()]
        if not make:
            raise ConfigError("The system's keyring has no master key.", hint=_BRING)
        made = [os.urandom(32)]
        self._to_keyring(made)
        return made

    def _to_keyring(self, keys: list[bytes]) -> None:
        keyring, text = self._keyring(), " ".join(one.hex() for one in keys)
        service = keyring_service(self._home)
        if keyring is not None:
            attempt_now(keyring.set_password, service, _USERNAME, text)
            if attempt_now(keyring.get_password, service, _USERNAME) == text:
                return
        raise ConfigError("The system's keyring does not take the master key.", hint="Nothing was changed.")


_BRING = "Bring the key that was used before; another one opens nothing."


def key_of(text: str, where: str) -> bytes:
    """A key as people write it; an error does not show it."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ConfigError(f"What {where} gives is no key: 64 hex digits.", hint="Make one: `openssl rand -hex 32`.")
    if len(set(text.strip().lower())) == 1:
        raise ConfigError(f"What {where} gives is a placeholder.", hint="Make a key: `openssl rand -hex 32`.")
    return key


def _output(command: str) -> str:
    import shlex
    import subprocess

    words = attempt_now(shlex.split, command)
    if isinstance(words, Raised) or not words:
        raise ConfigError("[store] `key_command` is no command.", hint="Write it as in a shell: pass show trunkline")
    try:
        # No shell, and nothing of what it writes is shown: it may hold the key. Its complaints go where ours do.
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=COMMAND_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"[store] `key_command` gave nothing within {COMMAND_TIMEOUT:.0f} seconds.") from None
    except OSError as error:
        raise ConfigError(f"[store] `key_command` does not run: {error.strerror}.") from None
    if done.returncode:
        raise ConfigError(f"[store] `key_command` failed with status {done.returncode}.", hint="Try it in a shell.")
    return done.stdout.decode(errors="replace")
