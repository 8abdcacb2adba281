"""Resources, prompts and completions: kept, read, filled in, and followed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from trunkline import (
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceContent,
    ResourceTemplate,
    ServerCapabilitiesManager,
    ToolServer,
    create_json_resource,
    create_prompt,
    create_text_resource,
)
from trunkline.authoring.events import PromptGenerated, ResourceChanged, ResourceRead, ResourceUnsubscribed
from trunkline.errors import ConfigError, InvalidArgumentsError, UnknownNameError, UpstreamTimeoutError


def users() -> ResourceTemplate:
    async def read(uri: str, variables: Mapping[str, str]) -> dict[str, str]:
        return dict(variables)

    return ResourceTemplate("data://users/{id}", "User", read)


async def text(manager: ServerCapabilitiesManager, uri: str) -> str:
    (content,) = await manager.read_resource(uri)
    return content.text


async def test_text_and_json_are_read_as_they_are_now() -> None:
    manager = ServerCapabilitiesManager()
    count = iter(range(9))
    manager.register_resource(create_text_resource("config://a", "A", "port=1"))
    manager.register_resource(create_json_resource("data://b", "B", lambda: {"n": next(count)}))

    (settings,) = await manager.read_resource("config://a")

    assert settings == ResourceContent("config://a", "port=1", mime_type="text/plain")
    assert [await text(manager, "data://b") for _ in range(2)] == ['{\n  "n": 0\n}', '{\n  "n": 1\n}']
    assert [resource.dynamic for resource in manager.list_resources()] == [False, True]


async def test_a_templates_variables_reach_its_reader() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource_template(users())

    assert await text(manager, "data://users/7") == '{\n  "id": "7"\n}'


async def test_an_address_of_its_own_comes_before_templates() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource_template(users())
    manager.register_resource(create_text_resource("data://users/me", "Me", "myself"))

    assert await text(manager, "data://users/me") == "myself"


def test_templates_are_listed_apart_from_resources() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource_template(users())

    assert manager.list_resources() == []
    assert [template.uri_template for template in manager.list_resource_templates()] == ["data://users/{id}"]


def test_whatever_is_registered_twice_is_refused() -> None:
    manager = ServerCapabilitiesManager()
    again = [
        lambda: manager.register_resource(create_text_resource("a://b", "A", "1")),
        lambda: manager.register_resource_template(users()),
        lambda: manager.register_prompt(create_prompt("p", "{x}")),
        lambda: manager.register_completion("p", "x", lambda value, others: []),
    ]

    for register in again:
        register()
        with pytest.raises(ConfigError, match="already"):
            register()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: create_text_resource("settings", "A", "1"),
        lambda: create_text_resource("a://b c", "A", "1"),
        lambda: Resource("a://b", "A", None),  # pyright: ignore[reportArgumentType]
        lambda: create_prompt("a b", "x"),
        lambda: Prompt("p", dict, arguments=(PromptArgument("a"), PromptArgument("a"))),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_made(wrong: Any) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_what_is_turned_off_cannot_be_registered() -> None:
    manager = ServerCapabilitiesManager(resources=False, prompts=False)

    with pytest.raises(ConfigError, match="no resources"):
        manager.register_resource(create_text_resource("a://b", "A", "1"))
    with pytest.raises(ConfigError, match="no prompts"):
        manager.register_prompt(create_prompt("p", "x"))
    assert manager.get_capabilities() == {}


async def test_readings_are_told_well_or_badly() -> None:
    def broken() -> str:
        raise OSError("disk gone")

    manager = ServerCapabilitiesManager()
    manager.register_resource(create_text_resource("a://good", "A", "1"))
    manager.register_resource(create_text_resource("a://bad", "B", broken))
    heard: list[ResourceRead] = []
    manager.on(ResourceRead, heard.append)

    await manager.read_resource("a://good")
    with pytest.raises(OSError, match="disk gone"):
        await manager.read_resource("a://bad")
    with pytest.raises(UnknownNameError):
        await manager.read_resource("a://none")

    assert [(event.uri, event.success, event.error) for event in heard] == [
        ("a://good", True, ""),
        ("a://bad", False, "disk gone"),
        ("a://none", False, "There is no resource 'a://none'."),
    ]


async def test_a_reader_that_takes_too_long_is_given_up() -> None:
    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    manager = ServerCapabilitiesManager(timeout=0.01)
    manager.register_resource(create_text_resource("a://b", "A", never))

    with pytest.raises(UpstreamTimeoutError):
        await manager.read_resource("a://b")


async def test_subscribers_hear_of_changes_until_they_leave() -> None:
    manager = ServerCapabilitiesManager()
    count = iter(range(9))
    manager.register_resource(create_text_resource("a://b", "A", lambda: str(next(count))))
    heard: list[str] = []

    async def slow(uri: str, contents: list[ResourceContent]) -> None:
        heard.append(f"slow {contents[0].text}")

    def broken(uri: str, contents: list[ResourceContent]) -> None:
        raise ValueError("not my day")

    leave = manager.subscribe_to_resource("a://b", slow)
    manager.subscribe_to_resource("a://b", broken)
    manager.subscribe_to_resource("a://b", lambda uri, contents: heard.append(f"quick {contents[0].text}"))
    await manager.notify_resource_changed("a://b")
    leave()
    leave()
    await manager.notify_resource_changed("a://b")

    assert heard == ["slow 0", "quick 0", "quick 1"]


async def test_a_change_is_told_even_where_nobody_subscribed() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource(create_text_resource("a://b", "A", "1"))
    heard: list[ResourceChanged] = []
    manager.on("resource_changed", heard.append)

    await manager.notify_resource_changed("a://b")

    assert heard == [ResourceChanged("a://b", 0)]


async def test_a_change_that_cannot_be_read_is_raised_and_not_swallowed() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource(create_text_resource("a://b", "A", lambda: str(1 // 0)))
    manager.subscribe_to_resource("a://b", lambda uri, contents: None)

    with pytest.raises(ZeroDivisionError):
        await manager.notify_resource_changed("a://b")


def test_what_is_not_there_cannot_be_followed() -> None:
    with pytest.raises(UnknownNameError):
        ServerCapabilitiesManager().subscribe_to_resource("a://b", lambda uri, contents: None)


def test_a_resource_that_goes_takes_its_subscriptions_along_and_says_so() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource_template(users())
    manager.subscribe_to_resource("data://users/1", lambda uri, contents: None)
    heard: list[ResourceUnsubscribed] = []
    manager.on(ResourceUnsubscribed, heard.append)

    assert manager.unregister_resource("data://users/{id}")
    assert not manager.unregister_resource("data://users/{id}")

    assert heard == [ResourceUnsubscribed("data://users/1")]
    assert manager.get_statistics().subscriptions == 0


async def test_values_are_put_into_a_prompt_as_they_are() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_prompt(create_prompt("both", "{first} and {second}, not {third} or {{first}}"))
    arguments = {"first": "{second}", "second": "{secret} \\1 {first}", "third": ""}

    result = await manager.get_prompt("both", arguments)

    assert result.messages[0].content == "{second} and {secret} \\1 {first}, not  or {{second}}"


async def test_what_is_no_argument_stays_in_the_prompt() -> None:
    manager = ServerCapabilitiesManager()
    arguments = [PromptArgument("a", required=True), PromptArgument("b")]
    manager.register_prompt(create_prompt("p", '{a}{b} {"json": {other}}', arguments=arguments))

    assert (await manager.get_prompt("p", {"a": "1"})).messages[0].content == '1 {"json": {other}}'


async def test_arguments_of_a_prompt_are_checked_before_it_runs() -> None:
    manager = ServerCapabilitiesManager()
    calls: list[Any] = []
    manager.register_prompt(Prompt("p", calls.append, arguments=(PromptArgument("a", required=True),)))
    heard: list[PromptGenerated] = []
    manager.on(PromptGenerated, heard.append)

    with pytest.raises(InvalidArgumentsError, match="wants the argument 'a'"):
        await manager.get_prompt("p")
    with pytest.raises(InvalidArgumentsError, match="no argument 'b'"):
        await manager.get_prompt("p", {"a": "", "b": "1"})
    with pytest.raises(UnknownNameError):
        await manager.get_prompt("q")

    assert calls == []
    assert [event.success for event in heard] == [False, False, False]


async def test_a_prompt_may_have_several_messages() -> None:
    manager = ServerCapabilitiesManager()
    generated = ["Review this.", PromptMessage("assistant", "Gladly.")]
    manager.register_prompt(Prompt("review", lambda given: generated, "Reviews."))

    result = await manager.get_prompt("review")

    assert [(message.role, message.content) for message in result.messages] == [
        ("user", "Review this."),
        ("assistant", "Gladly."),
    ]
    assert result.description == "Reviews."


async def test_completions_belong_to_an_argument_that_exists() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource_template(users())
    manager.register_completion("data://users/{id}", "id", lambda value, others: [value + "1"])

    with pytest.raises(ConfigError, match="no prompt or template"):
        manager.register_completion("nobody", "id", lambda value, others: [])
    with pytest.raises(ConfigError, match="no argument 'name'"):
        manager.register_completion("data://users/{id}", "name", lambda value, others: [])
    assert await manager.complete("data://users/{id}", "id", "a") == ["a1"]
    assert await manager.complete("data://users/{id}", "other", "a") == []


def test_all_can_be_cleared_and_counted() -> None:
    manager = ServerCapabilitiesManager()
    manager.register_resource_template(users())
    manager.register_prompt(create_prompt("p", "{x}"))
    counted = manager.get_statistics()
    manager.clear()

    assert (counted.resources, counted.templates, counted.prompts) == (0, 1, 1)
    assert manager.get_statistics().templates == 0


def takes_nothing() -> str:
    return "x"


def takes_another(name: str) -> str:
    return name


def takes_more(id: str, more: str) -> str:
    return id + more


def takes_stars(*ids: str) -> str:
    return "".join(ids)


@pytest.mark.parametrize("reader", [takes_nothing, takes_another, takes_more, takes_stars])
def test_a_reader_whose_parameters_are_not_the_templates_is_refused(reader: Any) -> None:
    with pytest.raises(ConfigError):
        ToolServer("shop").resource("data://{id}")(reader)


def test_a_message_of_a_prompt_says_first_who_speaks() -> None:
    assert PromptMessage("user", "Hello.").to_mcp() == {"role": "user", "content": {"type": "text", "text": "Hello."}}
    with pytest.raises(ConfigError, match=r'PromptMessage\("user", text\)'):
        PromptMessage("Hello.", "user")  # type: ignore[reportArgumentType]
