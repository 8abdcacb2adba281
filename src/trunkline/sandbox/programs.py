"""Programs over tools, for everyone who may run them: who runs how many, who is asked, and what is kept meanwhile."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from trunkline.call.functions import Functions, checked_stub
from trunkline.call.middleware.policy import must_agree
from trunkline.callers import Callers
from trunkline.config.options import Config
from trunkline.errors import BusyError, ConfigError, ProgramError, RefusedError, TrunklineError
from trunkline.model import Answer, Call, Entry, Parked, Question, Reply
from trunkline.questions.bridge import asks_caller
from trunkline.questions.kinds import ElicitationResponse, FormRequest
from trunkline.questions.manager import ElicitationManager
from trunkline.questions.mcp import answer_from_mcp, to_mcp
from trunkline.sandbox import consent
from trunkline.sandbox.bridge import Asking, Bridge, Line
from trunkline.sandbox.known import KnownPrograms, RunningProgram
from trunkline.sandbox.messages import whole
from trunkline.sandbox.pool import Pool
from trunkline.sandbox.run import Kept, ProgramResult, Run, Told
from trunkline.sandbox.waiting import LiveCalls, Waiting, id_of
from trunkline.tasks import Tasks, is_cancelled
from trunkline.telemetry.savings import Savings
from trunkline.tenancy.tenancy import Tenancy
from trunkline.tool import PROGRAM
from trunkline.tools.guidance import OWN
from trunkline.wire.envelope import INVALID_PARAMS, read_string
from trunkline.wire.members import decode_object, encode, write_members
from trunkline.wire.meta import progress_token
from trunkline.wire.questions import input_required, may_ask, read_answers

_SHOWN_PRINTS = 4000
"""Characters of what a program printed that its caller reads: the last ones."""


@dataclass(frozen=True)
class Asks:
    """A program that its caller has to answer by another request."""

    state: str
    questions: Mapping[str, Question]


class Programs:
    """Owned by the relay, whose stages every call of a program passes."""

    def __init__(
        self,
        config: Callable[[], Config],
        line: Line,
        callers: Callers,
        tenancy: Tenancy,
        tasks: Tasks,
        savings: Savings,
    ) -> None:
        self._config, self._line, self._tasks, self._savings = config, line, tasks, savings
        self._view, self._settle = callers.view_for, callers.settle
        self.pool = Pool(config().programs, config().home)
        self.waiting = Waiting(tenancy, lambda: config().programs)
        """Programs that wait for a person."""
        self._live = LiveCalls(line.withdraw)
        self._of_user: Counter[str] = Counter()
        self.known = KnownPrograms()
        """Programs that run, and the last that ended."""

    def configure(self) -> None:
        """Take on another configuration; what runs goes on as it began."""
        if self._config().programs != self.pool.config:
            old, self.pool = self.pool, Pool(self._config().programs, self._config().home)
            self._tasks.start(_retire(old), name="retired workers")

    async def close(self) -> None:
        """End every program that runs."""
        self._live.close()
        await self.pool.close()

    def forget_user(self, user: str) -> None:
        """Somebody is gone, and with them what waits for them."""
        self.known.forget(user)
        self._live.close(user)
        self._tasks.start(self.waiting.forget(user), name="programs of a user who left")

    # Looking.

    def running(self, user: str | None = None) -> list[RunningProgram]:
        """Those that run, of one user or of all."""
        return self.known.running(user)

    async def remove(self, id: str, user: str | None) -> None:
        """End one that runs, or drop one that waits, of a user if one is given."""
        found = self.known.find(id)
        if found is not None and user in (None, found.user):
            found.task.cancel()
            return
        whose = await self.waiting.remove(id, user)
        self._live.drop(id)
        self.known.tell(id, whose, "dropped")

    # Running.

    async def run(self, call: Call, code: str, *, timeout: float = 0.0) -> ProgramResult | Asks:
        """Run a program in the place of a call, whose caller is asked what has to be."""
        config = self._config().programs
        if not config.enabled or call.scope.overrides.disable_programmatic_calling:
            where = "here" if not config.enabled else "in this thread"
            raise ConfigError(f"No programs are run {where}.", hint="Call the tools one by one.")
        self.check_length(code)
        await self._settle(call.scope.user)
        run = self._made(call, os.urandom(12).hex())
        with self._place(call):
            outcome = await self._watched(call, run, code, run.start(code, self._stubs(call, code), timeout=timeout))
        return await self._to_its_end(call, run, code, outcome, timeout)

    def check_length(self, code: str) -> None:
        """Refuse a text that is longer than a program may be, or that is none."""
        most = self._config().programs.code
        if len(code) > most or len(code.encode("utf-8", "surrogatepass")) > most:
            raise ProgramError(f"Its text has more than {most} bytes.", hint="Do it in several programs.")
        if whole(code) != code:
            raise ProgramError(
                "Its text has half of a character.", hint="Write characters whole, not as \\ud83d alone."
            )

    async def take_up(self, call: Call, code: str, state: str) -> ProgramResult | Asks:
        """Go on with a program whose caller comes back with the answer."""
        await self._settle(call.scope.user)
        kept = await self.waiting.look(state, call)
        run = self._made(call, kept.id)
        agreed = consent.agreed(kept.wanted, _answered(call, self._question(run, kept))) if kept.wanted else set[int]()
        given = _given(call, kept)
        with self._place(call):
            kept = await self.waiting.take(state, call)  # once, and before anything is done
            answered = _asking(kept, given, self._live.take(id_of(state)))
            outcome = await self._watched(call, run, code, run.take_up(kept, agreed, answered))
        return await self._to_its_end(call, run, code, outcome, 0.0)

    async def _to_its_end(
        self, call: Call, run: Run, code: str, outcome: ProgramResult | Kept, timeout: float
    ) -> ProgramResult | Asks:
        while isinstance(outcome, Kept):
            request = self._question(run, outcome)
            state = await self._wait(call, run, outcome)
            if call.ask is None and call.answer_here is None:
                mine = {consent.KEY: _written(request)} if outcome.wanted else {}
                return Asks(state, {**mine, **consent.of_servers(outcome.asked)})
            wanted = outcome.wanted
            del outcome, run  # it is data, and nobody here holds it
            agreed = consent.agreed(wanted, await self._ask(call, request, state))
            with self._place(call):
                kept = await self.waiting.take(state, call)
                run = self._made(call, kept.id)
                outcome = await self._watched(call, run, code, run.take_up(kept, agreed, timeout=timeout))
        answer = f"{encode(outcome.value).decode()}{_prints(outcome.printed)}"
        self._savings.ran(call.scope.profile, call.scope.user, run.read, answer.encode())
        return outcome

    async def _wait(self, call: Call, run: Run, kept: Kept) -> str:
        """Keep a program until its person answered; gives what stands for it."""
        user, gateway, state = call.scope.user, self._config().gateway, ""
        try:
            self._live.check(user, run.live, gateway.max_parked)
            shown = [run.entry_of(one).shown for one in (*kept.wanted, *(asked.call for asked in kept.asked))]
            state = await self.waiting.keep(call, kept, shown)
        finally:
            for parked in () if state else run.live.values():
                self._line.withdraw(parked)
        self._live.hold(id_of(state), user, run.live, gateway.question_timeout)
        self.known.tell(run.id, user, "waiting")
        return state

    async def _ask(self, call: Call, request: FormRequest, state: str) -> ElicitationResponse:
        response: ElicitationResponse | None = None
        try:
            with ExitStack() as ended:
                response = await ElicitationManager(handler=asks_caller(call, None, ended)).request(request)
            return response
        finally:
            if response is None:  # whoever was asked is gone
                self._tasks.start(self.waiting.drop(state), name="a program that nobody answers")

    @contextmanager
    def _place(self, call: Call) -> Generator[None]:
        """Refuse a user who has too many under way; one that waits goes on waiting."""
        who, most = call.scope.holder, self._config().programs.running_per_user
        if self._of_user[who] >= most:
            raise BusyError(f"{most} programs of yours run already.", hint="Wait for one to end.")
        self._of_user[who] += 1
        try:
            yield
        finally:
            self._of_user[who] -= 1
            if not self._of_user[who]:
                del self._of_user[who]

    async def _watched(
        self, call: Call, run: Run, code: str, work: Coroutine[Any, Any, ProgramResult | Kept]
    ) -> ProgramResult | Kept:
        """Run one that is listed meanwhile, and can be ended from outside."""
        task = self._tasks.start(work, name=f"program {run.id}")
        self.known.begin(run, call.scope.user, code, task)
        error = "Its caller left."
        try:
            outcome = await task
            error = ""
            if isinstance(outcome, Kept):
                self.known.rest(run.id)
            return outcome
        except TrunklineError as failed:
            error = str(failed)
            raise
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            error = "It was ended from outside."
            raise ProgramError(error, printed=run.printed) from None
        finally:
            self.known.end(run.id, error)

    def _made(self, call: Call, id: str) -> Run:
        bridge = Bridge(call, id, self._line)
        functions = Functions(self._view(bridge.scope, bridge.caller).snapshot)
        run = Run(self.pool, bridge, functions, self._needs_agreement, _told(call), id)
        run.askable = call.answer_here is not None or may_ask(_FORM, call.caller.capabilities)
        return run

    def _needs_agreement(self, entry: Entry) -> bool:
        return must_agree(entry, self._config().middleware, listed=bool(entry.definition))

    def _question(self, run: Run, kept: Kept) -> FormRequest:
        timeout = self._config().gateway.question_timeout
        return consent.question(list(zip(kept.wanted, _entries(run, kept), strict=True)), timeout)

    def _stubs(self, call: Call, code: str) -> str:
        """What a type checker has to know: the tools whose names are in the program."""
        if not self._config().programs.type_check:
            return ""
        bridge = Bridge(call, "", self._line)
        functions = Functions(self._view(bridge.scope, bridge.caller).snapshot)
        named = {name: functions.get(name) for name in dict.fromkeys(re.findall(r"\w{2,80}", code))}
        stubs = [checked_stub(entry, name) for name, entry in named.items() if entry is not None]
        return "\n".join(("from typing import Any, Literal", *stubs))

    # `run_code`, over MCP.

    async def answer(self, call: Call) -> Reply:
        """Answer a call of `run_code`: what the program gave, what it asks, or why it failed."""
        asked = decode_object(call.params.get("arguments", b"{}"))
        code = asked.get("code")
        if not isinstance(code, str) or not code.strip() or asked.keys() - {"code"}:
            return _failed(f'{PROGRAM} takes {{"code": "..."}}: a program in Python, and nothing else.')
        try:
            if "requestState" in call.params:
                outcome = await self.take_up(call, code, read_string(call.params["requestState"]))
            else:
                outcome = await self.run(call, code, timeout=call.timeout if call.unlisted else 0.0)
        except ProgramError as error:
            return _failed(f"{error}{_prints(error.printed)}", call, error)
        except ConfigError as error:
            return _failed(str(error))
        if isinstance(outcome, Asks):
            return Reply(result=input_required(outcome.questions, outcome.state), modern=True)
        return _succeeded(outcome, call)


_FORM = Question("elicitation/create", b"{}")


async def _retire(pool: Pool) -> None:
    while pool.busy or pool.queued:  # noqa: ASYNC110 - it ends by itself
        await asyncio.sleep(1.0)
    await pool.close()


def _entries(run: Run, kept: Kept) -> Sequence[Entry]:
    return [run.entry_of(call) for call in kept.wanted]


def _written(request: FormRequest) -> Question:
    asked = to_mcp(request)
    assert isinstance(asked, dict)
    return Question("elicitation/create", encode(asked))


def _answered(call: Call, request: FormRequest) -> ElicitationResponse:
    """What a caller that came back says; an answer that is none leaves the question open."""
    if not may_ask(_FORM, call.caller.capabilities):
        raise RefusedError("The request answers what it does not declare.", code=INVALID_PARAMS)
    answer = read_answers(call.params).get(consent.KEY, Answer())
    response = answer_from_mcp(decode_object(answer.result), request)
    if response.error and not (response.declined or response.cancelled):
        raise consent.misfit(consent.KEY, response.error)
    return response


def _given(call: Call, kept: Kept) -> dict[int, dict[str, Answer]]:
    """What a caller that came back says to servers, by the calls in which they asked."""
    given = read_answers(call.params)
    questions = consent.of_servers(kept.asked).values()
    if not all(may_ask(one, call.caller.capabilities) for one in questions):
        raise RefusedError("The request answers what it does not declare.", code=INVALID_PARAMS)
    return {one.call.id: consent.answers_for(one, given) for one in kept.asked}


def _asking(kept: Kept, given: Mapping[int, Mapping[str, Answer]], live: Mapping[int, Parked]) -> dict[int, Asking]:
    """The calls that go on with answers: those that are data, and the live ones that are still there."""
    return {
        one.call.id: Asking(one.questions, one.state, live.get(one.call.id), one.rounds, one.agreed, given[one.call.id])
        for one in kept.asked
        if not one.live or one.call.id in live
    }


def _told(call: Call) -> Told:
    """The caller hears of each call as progress, and of prints as log messages."""
    token = progress_token(call.params)

    def called(tool: str, ended: int) -> None:
        if token:
            told = {"progressToken": token, "progress": b"%d" % ended, "message": encode(tool)}
            call.listener.notify("notifications/progress", write_members(told))

    def printed(text: str) -> None:
        call.listener.notify(
            "notifications/message", encode({"level": "info", "logger": PROGRAM, "data": text.rstrip("\n")})
        )

    return Told(called, printed)


def _prints(printed: str) -> str:
    if not printed:
        return ""
    cut = "…" if len(printed) > _SHOWN_PRINTS else ""
    return f"\nIt printed:\n{cut}{printed[-_SHOWN_PRINTS:]}".rstrip("\n")


def _succeeded(result: ProgramResult, call: Call) -> Reply:
    value = result.value
    texts = [value if isinstance(value, str) else encode(value).decode()] if value is not None else []
    texts += [_prints(result.printed).lstrip()] if result.printed else []
    content = encode([{"type": "text", "text": text} for text in texts or ["null"]])
    members = {"resultType": b'"complete"', "content": content}
    if call.unlisted:
        told = {"value": value, "printed": result.printed, "calls": result.calls, "duration": result.duration}
        members["_meta"] = encode({f"{OWN}program": told})
    return Reply(result=write_members(members))


def _failed(text: str, call: Call | None = None, error: ProgramError | None = None) -> Reply:
    content = encode([{"type": "text", "text": text}])
    members = {"resultType": b'"complete"', "content": content, "isError": b"true"}
    if call is not None and call.unlisted and error is not None:
        members["_meta"] = encode({f"{OWN}program": {"error": str(error), "printed": error.printed}})
    return Reply(result=write_members(members))
