"""Rotations of keys that die, beside a process that goes on: `python -m tests.tenancy.rotation_race URL HOME`."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.storage.race import Dying, forked, in_child
from trunkline.cli.keys import rotate_keys
from trunkline.config.options import Config
from trunkline.config.secrets import Secrets
from trunkline.config.tenancy import StoreConfig
from trunkline.storage import credentials as stored
from trunkline.storage import store as storage
from trunkline.storage.engine import Engine
from trunkline.storage.store import Place
from trunkline.tenancy import rotation
from trunkline.tenancy.credentials import CredentialName
from trunkline.tenancy.tenancy import Tenancy, open_tenancy

DEATHS = 20
RECORDS = 6
STATEMENTS = 22
"""About as many as a rotation of so many records makes."""

rotation.SLICE = 2


class Scene:
    """One store, one home, and the credentials in it."""

    def __init__(self, url: str, home: Path) -> None:
        self.config = Config(store=StoreConfig(url), home=home)
        self.names = [CredentialName("ana", f"server-{number:02}", "", "tokens") for number in range(RECORDS)]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Tenancy]:
        async with open_tenancy(self.config.store, self.config.home) as tenancy:
            await tenancy.store()
            yield tenancy

    async def fill(self) -> None:
        Secrets(self.config.home, keyring=lambda: None).set("file", "canary-file")
        async with self.opened() as tenancy:
            for name in self.names:
                await tenancy.vault.put(name, b"canary-0")

    async def use(self, stop: int, passes: int) -> None:
        """Read everything and change something, again and again, until the other end of a pipe is closed."""
        os.set_blocking(stop, False)
        values = dict.fromkeys(self.names, b"canary-0")
        async with self.opened() as tenancy:
            for number in range(1_000_000):
                for name in self.names:
                    assert await tenancy.vault.get(name) == values[name]
                changed = self.names[number % RECORDS]
                await tenancy.vault.put(changed, values[changed] + b"+")
                values[changed] += b"+"
                os.write(passes, b".")
                await asyncio.sleep(0.01)  # whoever rotates needs a core, too
                try:
                    if not os.read(stop, 1):
                        return
                except BlockingIOError:
                    pass

    async def rotate(self, statements: int, *, master: bool) -> None:
        """Turn the keys, and die at a statement."""
        plain = storage.reach

        async def reach(place: Place) -> Engine:
            return Dying(await plain(place), statements)

        storage.reach = reach
        async with self.opened() as tenancy:
            await rotate_keys(tenancy, self.config, master=master)

    async def finish(self) -> None:
        """What is left is done by the next; then there is one key, and everything opens."""
        async with self.opened() as tenancy:
            await rotate_keys(tenancy, self.config, master=False)
            store = await tenancy.store()
            kept = await stored.data_keys(store)
            assert len({one.kid for one in kept if one.created}) == 1
            assert len({one.master for one in kept}) == 1
            for name in self.names:
                assert (await tenancy.vault.get(name) or b"").startswith(b"canary-0")
            assert Secrets(self.config.home, keyring=lambda: None).get("file") == "canary-file"
            rows = await store.fetch("SELECT record FROM credentials UNION ALL SELECT wrapped FROM data_keys")
            assert not any(b"canary" in bytes(row[0]) for row in rows)

    def grep(self) -> None:
        for file in self.config.home.iterdir():
            assert b"canary" not in file.read_bytes(), file


def die_while_rotating(scene: Scene) -> None:
    """A rotation is killed twenty times beside a process that reads and writes, which never notices."""
    in_child(scene.fill)
    (stop, stopping), (passed, passing) = os.pipe(), os.pipe()

    async def use() -> None:
        os.close(stopping)
        await scene.use(stop, passing)

    user = forked(use)
    os.close(stop)
    os.close(passing)
    moment, killed = random.Random(7), 0
    while killed < DEATHS:
        at = moment.randrange(STATEMENTS)
        child = forked(lambda at=at, master=killed % 3 == 0: scene.rotate(at, master=master))
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        os.read(passed, 2**16)
        assert os.read(passed, 1), "whoever used the vault was disturbed"
        scene.grep()
        if killed % 5 == 4:
            in_child(scene.finish)
    os.close(stopping)
    assert os.waitpid(user, 0)[1] == 0
    in_child(scene.finish)
    scene.grep()


if __name__ == "__main__":
    die_while_rotating(Scene(sys.argv[1], Path(sys.argv[2])))
