"""What is known of calls that run, and of those that ended: one place for everyone who wants to know."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trunkline.call.stages.record import RecordStage
from trunkline.config.options import Config
from trunkline.errors import RefusedError, StoreError
from trunkline.identity import Scope
from trunkline.model import Kind
from trunkline.storage.files import seal_key
from trunkline.storage.store import Change, Store
from trunkline.tasks import Tasks
from trunkline.telemetry.audit import Audit, audit_folder
from trunkline.telemetry.metrics import Counts
from trunkline.telemetry.past import AT_ONCE, CallFilter, PastCalls
from trunkline.telemetry.record import CallRecord, Reader, Records
from trunkline.telemetry.savings import Savings
from trunkline.telemetry.series import Series
from trunkline.telemetry.traces import Traces, open_traces
from trunkline.telemetry.usage import By, Usage, UsageTold
from trunkline.tenancy.tenancy import Tenancy

log = logging.getLogger("trunkline")

KEPT_EVERY = 2.0
"""Seconds between two times that past calls are stored; so much of them a crash forgets, and more of a flood."""
TRIMMED_EVERY = 60


class Recording:
    """Has records made only where somebody reads them."""

    def __init__(self, config: Config, savings: Savings, *, watched: bool) -> None:
        self._config, self._watched = config, watched
        self.records = Records()
        """Calls that run, and readers of those that ended."""
        self.past = PastCalls(config.calls.keep)
        self.usage = Usage()
        self.series = Series(lambda user: savings.total(user).tokens)
        self.counts: Counts | None = None
        """Calls as metrics tell them; `None` where there are none."""
        self.audit: Audit | None = None
        self.processes = 0
        """Processes of servers that were started."""
        self._traces: Traces | None = None
        self._left: list[Traces] = []
        """Those of former options, which may have something to send."""
        self._readers: tuple[Reader, ...] = ()
        self._listeners: list[Reader] = []
        self._tasks: Tasks | None = None
        self._tenancy: Tenancy | None = None
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Take on other options; what is kept stays as far as it fits."""
        changed, self._config = config != self._config, config
        readers: list[Reader] = []
        self.past.configure(config.calls.keep)
        if self._watched and config.calls.keep:
            readers += (self._remember, self.series.read)
        if self._watched and config.metrics.enabled:
            if self.counts is None or self.counts.tools != config.metrics.tools:
                self.counts = Counts(config.metrics.tools)
            readers.append(self.counts.read)
        else:
            self.counts = None
        self._configure_traces(config)
        if self._traces is not None:
            readers.append(self._traces.take)
        self._set_audit(config)
        if self.audit is not None:
            readers.append(self.audit.read)
        self.records.digest = self.audit.digest if self.audit is not None else None
        self.records.eager = self.audit is not None and self.audit.config.on_failure == "refuse"
        self._readers = tuple(readers)
        self._set_readers()
        if changed:
            self.note("change", {"what": "configuration", "servers": sorted(config.servers)[:1000]})

    def stages(self) -> tuple[RecordStage, ...]:
        """What stands around all other stages, where somebody reads records."""
        admit = self.audit.admit if self.audit is not None and self.records.eager else None
        return (RecordStage(self.records, admit),) if self.records.readers else ()

    def require(self) -> None:
        """Refuse a call of a tool that may not be called without its line, where that will not be written."""
        if self.audit is None:
            hint = "Switch the audit on with [audit] `enabled = true`, or say `audit_required = false` of the tool."
            raise RefusedError(
                "This tool may not be called without the audit, and there is none.", code=-32000, status=403, hint=hint
            )
        self.audit.require()

    def listen(self, reader: Reader) -> Callable[[], None]:
        """Hear of calls that ended, while records are made; call what is returned to stop."""
        self._listeners.append(reader)
        self._set_readers()

        def stop() -> None:
            self._listeners.remove(reader)
            self._set_readers()

        return stop

    def _set_readers(self) -> None:
        self.records.readers = (*self._readers, *self._listeners)
        # Where nothing else is on, most calls leave nothing behind.
        self.records.traced_only = self._traces is not None and self.records.readers == (self._traces.take,)

    # Past calls and what they used.

    def _remember(self, ended: Sequence[CallRecord]) -> None:
        if self._tenancy is not None and self._tenancy.is_open:
            self.past.keep_all()
        self.past.read(ended)
        self.usage.read(ended)

    async def calls(self, wanted: CallFilter, limit: int) -> list[CallRecord]:
        """Calls that run and calls that ended, the latest first."""
        self.records.drain()
        live = [one for one in self.records.running() if wanted.has(one)] if not wanted.before else []
        if wanted.outcome == "running" or len(live) >= limit:
            return live[:limit]
        return live + await self.past.list(wanted, limit - len(live), await self.store())

    async def call(self, id: str) -> CallRecord | None:
        """The call of an id, whether it runs or ended."""
        self.records.drain()
        live = next((one for one in self.records.running() if one.id == id), None)
        return live or await self.past.find(id, await self.store())

    async def used(self, by: By, person: str | None, limit: int) -> UsageTold:
        """What calls used, by whom or by what."""
        self.records.drain()
        return await self.usage.told(by, person, await self.store(), limit)

    async def store(self) -> Store | None:
        """The store, where one is open."""
        return await self._tenancy.store() if self._tenancy is not None and self._tenancy.is_open else None

    # What is no call.

    def note(self, kind: str, said: Mapping[str, Any], *, who: Mapping[str, str] | None = None) -> None:
        """Something happened that belongs into the audit, where there is one."""
        if self.audit is not None:
            self.audit.add(kind, said, who=who)

    def refused(self, said: Mapping[str, Any], who: Mapping[str, str] | None = None) -> None:
        """A request was refused before it became a call."""
        if self.audit is not None:
            self.audit.refused(said, who)

    async def _changed_elsewhere(self, changes: Sequence[Change] | None) -> None:
        """Another process, such as a command, changed something in the store."""
        for change in changes or ():
            said = {"what": change.noun, "owner": change.owner, "name": change.name, "by": "another process"}
            self.note("change", said)

    def _signed(self, owner: str, server: str) -> None:
        """Somebody signed in to a server, or out of it."""
        signed = self._tenancy is not None and self._tenancy.sign_ins.is_signed(owner, server)
        self.note("sign-in", {"server": server, "signed_in": signed}, who={"user": owner})

    def listed(self, scope: Scope, kind: Kind, page: bytes) -> None:
        """A list was shown to a caller."""
        if kind is Kind.TOOL and self._watched and self._config.calls.keep:
            tokens = self.records.weights.of("", "tools/list").tokens(b"", page)[1]
            self.usage.listed(scope.person, scope.thread, tokens)

    def process_started(self, server: str, pid: int) -> None:
        """A process of a server was started."""
        self.processes += 1
        self.note("process", {"server": server, "pid": pid})

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and who comes under that name is somebody else."""
        self.series.forget_user(user)
        self.usage.forget_user(user)

    # Its lifetime.

    def start(self, tasks: Tasks, tenancy: Tenancy) -> None:
        """Keep what outlives us, where there is a store for it."""
        self._tasks, self._tenancy = tasks, tenancy
        tenancy.sign_ins.on_change(self._signed)
        tenancy.on_change(self._changed_elsewhere)
        self.configure(self._config)
        if self._watched:
            tasks.start(self._keep(), name="past calls")

    async def close(self) -> None:
        """Keep what is left."""
        self.records.drain()
        for traces in (*self._left, *([self._traces] if self._traces is not None else ())):
            await traces.close()
        with suppress(StoreError):
            await self._keep_now()
        if self.audit is not None:
            self.audit.close()

    async def _keep(self) -> None:
        for turn in range(1, 2**62):
            await asyncio.sleep(KEPT_EVERY)
            self.series.look()
            with suppress(StoreError):  # whoever follows the store says that it is away
                await self._keep_now(most=AT_ONCE, trim=turn % TRIMMED_EVERY == 1)

    async def _keep_now(self, *, most: int | None = None, trim: bool = False) -> None:
        store = await self.store()
        if store is None:
            return
        self._remember(())
        await self.past.store(store, most)
        await self.usage.keep(store)
        if trim:
            await self.past.trim(store, self._config.calls.days)
            await self.usage.forget(store, self._config.calls.days)

    def _configure_traces(self, config: Config) -> None:
        if (self._traces.section if self._traces is not None else None) != config.traces:
            if self._traces is not None:
                self._left.append(self._traces)
            self._traces = open_traces(config.traces)
        self.records.tracer = self._traces.tracer if self._traces is not None else None

    def _set_audit(self, config: Config) -> None:
        """Open the audit that the options want, once there are tasks; close the one that they want no more."""
        wanted = config.audit if config.audit.enabled else None
        if self._tasks is None or wanted == (self.audit.config if self.audit is not None else None):
            return
        if self.audit is not None:
            self.audit.close()
            self.audit = None
        if wanted is not None:
            key = hashlib.blake2b(b"arguments in the audit", key=seal_key(config.home)).digest()
            self.audit = Audit(wanted, audit_folder(wanted, config.home), key)
            self.audit.open()
            self._tasks.start(self.audit.sweep(), name="audit")
