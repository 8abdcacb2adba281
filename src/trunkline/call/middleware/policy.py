"""Which middleware concerns a tool: what the configuration says of all, and of this one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trunkline.balance.failover import RetryBudget
from trunkline.call.middleware.chain import CallNext, ToolContext, ToolMiddleware
from trunkline.call.middleware.confirm import cancelled, refusal
from trunkline.call.middleware.deadline import create_timeout_middleware
from trunkline.call.middleware.logs import logging_middleware
from trunkline.call.middleware.retry import create_retry_middleware
from trunkline.call.middleware.validate import create_validation_middleware
from trunkline.config.options import MiddlewareSection
from trunkline.model import Entry
from trunkline.tool import NO_OPTIONS, Tool, ToolResult

_MOST = 10_000


class Policy:
    """Chooses by what is known of a tool; tools of which the same is known share what was chosen."""

    def __init__(
        self,
        config: MiddlewareSection,
        own: Sequence[ToolMiddleware],
        budget: RetryBudget,
        audited: Callable[[], None],
    ) -> None:
        self._config, self._own, self._budget, self._audited = config, own, budget, audited
        self._chosen: dict[tuple[object, ...], tuple[ToolMiddleware, ...]] = {}
        self._usual = config.confirm in ("marked", "never") and not (
            config.logging or config.validate or config.timeout or config.retries
        )
        """By itself the configuration wants nothing for a tool of which it says nothing."""

    def __call__(self, entry: Entry) -> Sequence[ToolMiddleware]:
        known = entry.annotations
        if self._usual and entry.options is NO_OPTIONS and not (known.requires_confirmation or known.audit_required):
            return self._own
        listed = bool(entry.definition)
        key = known, entry.options, entry.safe_to_repeat, listed, len(self._own)
        chosen = self._chosen.get(key)
        if chosen is None:
            if len(self._chosen) >= _MOST:
                self._chosen.clear()
            chosen = self._chosen[key] = tuple(self._choose(entry, listed=listed))
        return chosen

    def _choose(self, entry: Entry, *, listed: bool) -> list[ToolMiddleware]:
        """From the outermost: all is logged, nobody agrees to what cannot be called, a retry repeats the call alone."""
        config, options = self._config, entry.options
        marked = entry.annotations.audit_required is True
        chosen: list[ToolMiddleware] = [logging_middleware] if config.logging else []
        if marked:  # where there is an audit, every call is in it; this one is not made unless it will be
            chosen.append(_requires(self._audited))
        chosen += self._own
        timeout = config.timeout if options.timeout is None else options.timeout
        if timeout > 0:
            chosen.append(create_timeout_middleware(timeout))
        validate = config.validate if options.validate is None else options.validate
        if validate and listed:
            chosen.append(
                create_validation_middleware(elicit_missing=config.elicit_missing, timeout=config.confirm_timeout)
            )
        if must_agree(entry, config, listed=listed):
            chosen.append(_asks(config.confirm_timeout))
        retries = config.retries if options.retries is None else options.retries
        if retries > 0 and entry.safe_to_repeat:
            chosen.append(create_retry_middleware(retries, config.retry_delay, budget=self._budget))
        return chosen


def _requires(check: Callable[[], None]) -> ToolMiddleware:
    async def audit(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        check()
        return await call_next()

    return audit


def must_agree(entry: Entry, config: MiddlewareSection, *, listed: bool) -> bool:
    """Whether a person must agree to a call; of a tool that its server does not list nothing is known to be safe."""
    if listed:
        return entry.annotations.requires_confirmation is True
    marked = entry.options.requires_confirmation
    return config.confirm in ("destructive", "writes") if marked is None else marked and config.confirm != "never"


def _asks(timeout: float) -> ToolMiddleware:
    async def confirm(tool: Tool, params: dict[str, Any], context: ToolContext, call_next: CallNext) -> ToolResult:
        why = await refusal(tool, params, context, timeout=timeout)
        return cancelled(tool, why) if why else await call_next()

    return confirm
