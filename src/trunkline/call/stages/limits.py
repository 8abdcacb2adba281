"""The stage that counts: whoever used what they may use is told when there is more."""

from __future__ import annotations

from collections.abc import Awaitable

from trunkline.call.stage import Handler
from trunkline.model import Call, Reply
from trunkline.tenancy.limits import Limiter
from trunkline.tools.tokens import estimated

MOST_READ = 64 * 2**10
"""Bytes of an answer whose tokens are looked at one by one; of more, the rest counts as the first."""


class LimitStage:
    """Counts calls of tools before they begin, and what their answers take when they are there."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    def __call__(self, call: Call, call_next: Handler) -> Awaitable[Reply]:
        if call.method != "tools/call" or call.parked is not None or not self._limiter.is_limited(call.scope):
            return call_next(call)
        return self._counted(call, call_next)

    async def _counted(self, call: Call, call_next: Handler) -> Reply:
        scope = call.scope
        self._limiter.enter(scope)
        tokens = cost = 0.0
        try:
            reply = await call_next(call)
            if self._limiter.counts_tokens(scope):
                tokens = tokens_of(reply.result)
            cost = (call.entry.annotations.cost_hint if call.entry is not None else None) or 0.0
            return reply
        finally:
            self._limiter.leave(scope, tokens=tokens, cost=cost)


def tokens_of(result: bytes) -> float:
    """About how many tokens an answer takes of a model's context."""
    head = result[:MOST_READ]
    return estimated(head) * (len(result) / len(head)) if head else 0.0
