"""What a server offers besides tools: resources, templates, prompts, completions, and news of their changes."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from trunkline.authoring.context import Alone, Counterpart, calling
from trunkline.authoring.events import (
    CAPABILITY_EVENTS,
    Cleared,
    PromptGenerated,
    PromptRegistered,
    PromptUnregistered,
    ResourceChanged,
    ResourceRead,
    ResourceRegistered,
    ResourceSubscribed,
    ResourceTemplateRegistered,
    ResourceUnregistered,
    ResourceUnsubscribed,
)
from trunkline.authoring.prompts import Prompt, PromptMessage, PromptResult, read_messages
from trunkline.authoring.resources import Resource, ResourceContent, ResourceTemplate, read_contents
from trunkline.errors import ConfigError, UnknownNameError
from trunkline.events import Emitter, Event
from trunkline.foreign import Raised, attempt
from trunkline.workers import run

log = logging.getLogger("trunkline")

Completer = Callable[[str, Mapping[str, str]], Iterable[str] | Awaitable[Iterable[str]]]
"""Takes what was typed so far and the other arguments; gives what it may become."""

Subscriber = Callable[[str, list[ResourceContent]], Any | Awaitable[Any]]
"""Takes the address of a resource that changed, and what it holds now."""

Kind = Literal["tools", "resources", "prompts"]


@dataclass(frozen=True, slots=True)
class ServerCapabilitiesConfig:
    """What may be offered."""

    resources: bool = True
    prompts: bool = True
    resource_subscriptions: bool = True
    timeout: float = 30.0
    """Seconds that a reader, a prompt or a completion may take."""

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf"):
            raise ConfigError(f"A reader's `timeout` cannot be {self.timeout:g}.", hint="Give seconds, above 0.")


@dataclass(frozen=True, slots=True)
class CapabilityStatistics:
    """How many there are."""

    resources: int
    templates: int
    prompts: int
    completions: int
    subscriptions: int


class ServerCapabilitiesManager:
    """Resources by address, templates and prompts in the order they came; the first that fits is taken."""

    def __init__(
        self,
        config: ServerCapabilitiesConfig | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.config = replace(config, **options) if config is not None else ServerCapabilitiesConfig(**options)
        self._clock = clock
        self._resources: dict[str, Resource] = {}
        self._templates: dict[str, ResourceTemplate] = {}
        self._prompts: dict[str, Prompt] = {}
        self._completers: dict[tuple[str, str], Completer] = {}
        self._subscribers: dict[str, list[Subscriber]] = {}
        self._events = Emitter(*CAPABILITY_EVENTS)
        self.on, self.off = self._events.on, self._events.off
        self.list_changed: Callable[[Kind], object] = _nothing
        """Called when a list is no longer what it was; a server tells its callers by it."""
        self.updated: Callable[[str], object] = _nothing
        """Called with the address of a resource that changed."""

    # Resources.

    def register_resource(self, resource: Resource) -> None:
        """Add a resource; an address has one."""
        self._want(self.config.resources, "resources")
        _once(resource.uri, self._resources, "resource")
        self._resources[resource.uri] = resource
        self._events.emit(ResourceRegistered(resource.uri, resource.name))
        self.list_changed("resources")

    def register_resource_template(self, template: ResourceTemplate) -> None:
        """Add a template; of two that fit an address, the one that came first is read."""
        self._want(self.config.resources, "resources")
        _once(template.uri_template, self._templates, "template")
        self._templates[template.uri_template] = template
        self._events.emit(ResourceTemplateRegistered(template.uri_template))
        self.list_changed("resources")

    def unregister_resource(self, uri: str) -> bool:
        """Take a resource or a template away, and with it those who follow it; false when there is none."""
        if self._resources.pop(uri, None) is None and self._templates.pop(uri, None) is None:
            return False
        for followed in [address for address in self._subscribers if not self.can_read(address)]:
            for _ in self._subscribers.pop(followed):
                self._events.emit(ResourceUnsubscribed(followed))
        self._events.emit(ResourceUnregistered(uri))
        self.list_changed("resources")
        return True

    def list_resources(self) -> list[Resource]:
        """The resources with an address of their own."""
        return list(self._resources.values())

    def list_resource_templates(self) -> list[ResourceTemplate]:
        """The templates."""
        return list(self._templates.values())

    def get_resource(self, uri: str) -> Resource | None:
        """One resource, if there is one at that address."""
        return self._resources.get(uri)

    def can_read(self, uri: str) -> bool:
        """Whether there is something at an address."""
        return uri in self._resources or any(one.template.match(uri) is not None for one in self._templates.values())

    async def read_resource(self, uri: str, *, counterpart: Counterpart | None = None) -> list[ResourceContent]:
        """What is at an address; `UnknownNameError` when nothing is."""
        with self._noted(partial(ResourceRead, uri)):
            async with calling(counterpart or Alone(), self.config.timeout):
                resource, variables = self._found(uri)
                return read_contents(uri, resource.mime_type, await run(resource.reader, uri, variables))

    # Changes of resources.

    def subscribe_to_resource(self, uri: str, callback: Subscriber) -> Callable[[], None]:
        """Have a function called when a resource changes; call what is returned to stop."""
        self._want(self.config.resource_subscriptions, "resource subscriptions")
        self._found(uri)
        self._subscribers.setdefault(uri, []).append(callback)
        self._events.emit(ResourceSubscribed(uri))
        return lambda: self._unsubscribe(uri, callback)

    async def notify_resource_changed(self, uri: str) -> None:
        """Tell callers and subscribers; the resource is read once for all of the latter.

        A subscriber that fails is logged, and the others are called. Raises what reading raises.
        """
        subscribers = tuple(self._subscribers.get(uri, ()))
        self._events.emit(ResourceChanged(uri, len(subscribers)))
        self.updated(uri)
        if not subscribers:
            return
        contents = await self.read_resource(uri)
        for subscriber in subscribers:
            outcome = await attempt(run, subscriber, uri, contents)
            if isinstance(outcome, Raised):  # the others want to hear as well
                log.error("A subscriber to %s failed.", uri, exc_info=outcome.error)

    # Prompts.

    def register_prompt(self, prompt: Prompt) -> None:
        """Add a prompt; a name has one."""
        self._want(self.config.prompts, "prompts")
        _once(prompt.name, self._prompts, "prompt")
        self._prompts[prompt.name] = prompt
        self._events.emit(PromptRegistered(prompt.name))
        self.list_changed("prompts")

    def unregister_prompt(self, name: str) -> bool:
        """Take a prompt away; false when there is none."""
        if self._prompts.pop(name, None) is None:
            return False
        self._events.emit(PromptUnregistered(name))
        self.list_changed("prompts")
        return True

    def list_prompts(self) -> list[Prompt]:
        """All prompts."""
        return list(self._prompts.values())

    def get_prompt_definition(self, name: str) -> Prompt | None:
        """One prompt as it was registered."""
        return self._prompts.get(name)

    async def get_prompt(
        self, name: str, args: Mapping[str, str] | None = None, *, counterpart: Counterpart | None = None
    ) -> PromptResult:
        """A prompt, filled in; raises `UnknownNameError`, or `InvalidArgumentsError` before anything runs."""
        messages: list[PromptMessage] = []
        with self._noted(lambda seconds, success, error: PromptGenerated(name, seconds, success, len(messages), error)):
            async with calling(counterpart or Alone(), self.config.timeout):
                result = await self._filled(name, args or {})
            messages += result.messages
        return result

    async def _filled(self, name: str, given: Mapping[str, str]) -> PromptResult:
        prompt = self._prompts.get(name)
        if prompt is None:
            raise UnknownNameError(f"There is no prompt {name!r}.", hint=_there_are(self._prompts))
        prompt.check(given)
        return read_messages(await run(prompt.generator, dict(given)), prompt.description)

    # Completions.

    def register_completion(self, reference: str, argument: str, completer: Completer) -> None:
        """Complete an argument of a prompt, or a variable of a template, which must be there already."""
        if reference in self._prompts:
            known = [one.name for one in self._prompts[reference].arguments]
        elif reference in self._templates:
            known = list(self._templates[reference].template.variables)
        else:
            raise ConfigError(f"There is no prompt or template {reference!r}.", hint="Register it first.")
        if argument not in known:
            raise ConfigError(f"{reference!r} has no argument {argument!r}.", hint=_there_are(known))
        _once((reference, argument), self._completers, "completion")
        self._completers[reference, argument] = completer

    async def complete(
        self, reference: str, argument: str, value: str, others: Mapping[str, str] | None = None
    ) -> list[str]:
        """What an argument may become; nothing where nobody knows."""
        completer = self._completers.get((reference, argument))
        if completer is None:
            return []
        async with calling(Alone(), self.config.timeout):
            return list(await run(completer, value, dict(others or {})))

    # All.

    @property
    def completes(self) -> bool:
        """Whether anything is completed."""
        return bool(self._completers)

    def get_capabilities(self) -> dict[str, Any]:
        """As MCP announces them."""
        found: dict[str, Any] = {}
        if self.config.resources:
            found["resources"] = {"subscribe": self.config.resource_subscriptions, "listChanged": True}
        if self.config.prompts:
            found["prompts"] = {"listChanged": True}
        return found | ({"completions": {}} if self._completers else {})

    def get_statistics(self) -> CapabilityStatistics:
        """How many there are of each."""
        return CapabilityStatistics(
            len(self._resources),
            len(self._templates),
            len(self._prompts),
            len(self._completers),
            sum(len(subscribers) for subscribers in self._subscribers.values()),
        )

    def clear(self) -> None:
        """Take everything away."""
        for kept in (self._resources, self._templates, self._prompts, self._completers, self._subscribers):
            kept.clear()
        self._events.emit(Cleared())
        self.list_changed("resources")
        self.list_changed("prompts")

    @contextmanager
    def _noted(self, event: Callable[[float, bool, str], Event]) -> Generator[None]:
        """Tell how the body ended: after how many seconds, whether well, and if not, why."""
        started = self._clock()
        try:
            yield
        finally:
            error = sys.exception()
            failed = str(error) if isinstance(error, Exception) else "It was cancelled." if error else ""
            self._events.emit(event(self._clock() - started, not failed, failed))

    def _found(self, uri: str) -> tuple[Resource | ResourceTemplate, dict[str, str]]:
        if uri in self._resources:
            return self._resources[uri], {}
        for template in self._templates.values():
            variables = template.template.match(uri)
            if variables is not None:
                return template, variables
        raise UnknownNameError(f"There is no resource {uri!r}.")

    def _unsubscribe(self, uri: str, callback: Subscriber) -> None:
        subscribers = self._subscribers.get(uri, [])
        if callback in subscribers:
            subscribers.remove(callback)
            if not subscribers:
                del self._subscribers[uri]
            self._events.emit(ResourceUnsubscribed(uri))

    def _want(self, enabled: bool, what: str) -> None:
        if not enabled:
            raise ConfigError(f"This server has no {what}.", hint="Turn them on in its ServerCapabilitiesConfig.")


def _once(key: Any, known: Mapping[Any, Any], what: str) -> None:
    if key in known:
        raise ConfigError(f"There already is a {what} {key!r}.", hint="Unregister it first.")


def _there_are(known: Iterable[str]) -> str:
    names = ", ".join(known)
    return f"There are: {names}." if names else "There are none."


def _nothing(about: Any) -> None:
    pass
