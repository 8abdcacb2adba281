"""Manifests: both dialects, both spellings, and complaints that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.install.manifests.samples import PLUGIN, Json, npm, read
from trunkline.errors import ManifestError
from trunkline.install.manifests.manifest import Variable

FULL: Json = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
    "name": "io.github.acme/weather",
    "title": "Weather",
    "description": "Weather for agents",
    "version": "2.0.0",
    "websiteUrl": "https://acme.example",
    "license": "MIT",
    "status": "active",
    "repository": {"url": "https://git.example/acme", "source": "git", "id": "1", "subfolder": "src"},
    "icons": [{"src": "https://acme.example/i.png", "sizes": ["48x48"], "theme": "dark"}],
    "_meta": {"org.acme": {"isSecret": 1}},
    "futureField": [1],
    "packages": [
        {
            "registryType": "pypi",
            "registryBaseUrl": "https://packages.example",
            "identifier": "weather-mcp",
            "version": "0.5.0",
            "fileSha256": "A" * 64,
            "runtimeHint": "uvx",
            "transport": {"type": "stdio"},
            "runtimeArguments": [{"type": "named", "name": "--from", "value": "weather-mcp"}],
            "packageArguments": [
                {
                    "type": "positional",
                    "valueHint": "folder",
                    "isRepeated": True,
                    "isRequired": True,
                    "format": "filepath",
                    "placeholder": "/data",
                }
            ],
            "environmentVariables": [
                {
                    "name": "UNITS",
                    "description": "Units",
                    "isRequired": True,
                    "isSecret": False,
                    "default": "c",
                    "choices": ["c", "f"],
                    "value": "{units}",
                    "variables": {"units": {"isRequired": True}},
                }
            ],
            "anotherFutureField": True,
        }
    ],
    "remotes": [
        {
            "type": "sse",
            "url": "https://{tenant}.acme.example/sse",
            "headers": [{"name": "X-Key", "isSecret": True}],
            "variables": {"tenant": {"description": "Yours"}},
        }
    ],
}


def test_every_field_of_the_official_schema_is_read_and_unknown_ones_are_kept() -> None:
    manifest = read(FULL)
    package, remote = manifest.packages[0], manifest.remotes[0]

    assert (manifest.title, manifest.version, manifest.website) == ("Weather", "2.0.0", "https://acme.example")
    assert (manifest.license, manifest.status, manifest.schema) == ("MIT", "active", FULL["$schema"])
    assert (manifest.repository, manifest.icons) == (FULL["repository"], tuple(FULL["icons"]))
    assert (manifest.meta, manifest.extra) == ({"org.acme": {"isSecret": 1}}, {"futureField": [1]})
    assert (package.registry, package.identifier, package.version) == ("pypi", "weather-mcp", "0.5.0")
    assert (package.registry_url, package.sha256) == ("https://packages.example", "a" * 64)
    assert (package.runtime, package.transport, package.extra) == ("uvx", "stdio", {"anotherFutureField": True})
    assert package.runtime_arguments[0].flag == "--from"
    assert package.package_arguments[0].input == Variable(
        "folder", required=True, format="filepath", placeholder="/data", repeated=True
    )
    assert package.environment[0].used == (Variable("units", required=True),)
    assert package.environment[0].choices == ("c", "f")
    assert (remote.transport, remote.url) == ("sse", "https://{tenant}.acme.example/sse")
    assert (remote.headers[0].secret, remote.variables[0].description) == (True, "Yours")


def test_the_plugin_dialect_is_read_with_its_command_and_its_variables() -> None:
    package = read(PLUGIN).packages[0]

    assert (package.command, package.runtime, package.label) == (("mcp-server-github",), "uvx", "default")
    assert package.environment == (Variable("GITHUB_TOKEN", "A token", required=True, secret=True),)


def test_both_spellings_mean_the_same_in_both_files() -> None:
    def snake(value: Any) -> Any:
        import re

        if isinstance(value, dict):
            return {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", k).lower(): snake(v) for k, v in value.items()}  # type: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        return [snake(item) for item in value] if isinstance(value, list) else value  # type: ignore[reportUnknownVariableType]

    camel = npm(environmentVariables=[{"name": "A", "isRequired": True, "isSecret": True}], runtimeHint="npx")
    plugin = {
        **PLUGIN,
        "packages": [{"transportType": "stdio", "runtime": "uvx", "command": ["x"], "environmentVariables": []}],
    }

    assert read(snake(camel)).packages == read(camel).packages
    assert read(snake(plugin)).packages == read(plugin).packages


WRONG: list[tuple[Any, str]] = [
    ([], "server.json must be an object"),
    ({}, "server.json: `name`"),
    ({"name": "a\x1b[2J"}, "`name`"),
    ({"name": 1}, "server.json: name must be a text"),
    ({"name": "a", "packages": {}}, "server.json: packages must be a list"),
    ({"name": "a", "packages": [1]}, "server.json: packages[0] must be an object"),
    ({"name": "a", "packages": [{}]}, "packages[0] has neither an `identifier` nor a `command`"),
    ({"name": "a", "packages": [{"command": "uvx x"}]}, "packages[0].command must be a list of words"),
    ({"name": "a", "packages": [{"command": ["x", 1]}]}, "packages[0].command must be a list of words"),
    ({"name": "a", "remotes": [{}]}, "remotes[0] has no `url`"),
    ({"name": "a", "remotes": [{"url": "https://h", "type": "carrier-pigeon"}]}, "the transport must be"),
    (npm(environmentVariables=[{}]), "packages[0].environmentVariables[0].name"),
    (npm(environmentVariables=[{"name": "A", "isSecret": "yes"}]), "environmentVariables[0].isSecret must be true"),
    (npm(environment_variables=[{"name": "A", "format": "date"}]), "environment_variables[0].format must be one"),
    (npm(environmentVariables=[{"name": "A", "default": {}}]), "environmentVariables[0].default must be a text"),
    (npm(environmentVariables=[{"name": "A", "isSecret": True, "is_secret": False}]), "both 'isSecret' and"),
    (npm(packageArguments=[{"type": "named"}]), "packages[0].packageArguments[0].name must be a flag"),
    (npm(packageArguments=[{"type": "other"}]), "packages[0].packageArguments[0].type must be"),
]


@pytest.mark.parametrize(("value", "complaint"), WRONG)
def test_a_wrong_manifest_is_refused_with_the_field(value: Any, complaint: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(value)

    assert complaint in str(caught.value)


def test_numbers_and_booleans_are_taken_as_people_write_them() -> None:
    manifest = read(
        npm(environmentVariables=[{"name": "P", "default": 80, "choices": [80, 8080]}, {"name": "Q", "default": True}])
    )

    assert [variable.default for variable in manifest.packages[0].environment] == ["80", "true"]
    assert manifest.packages[0].environment[0].choices == ("80", "8080")


def test_the_answer_of_a_registry_is_unwrapped() -> None:
    wrapped = {"server": npm(), "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active"}}}

    assert read(wrapped) == read(npm())


def test_the_fingerprint_depends_on_what_is_said_and_not_on_its_order() -> None:
    turned = dict(reversed(npm().items()))

    assert read(npm()).fingerprint == read(turned).fingerprint
    assert len(read(npm()).fingerprint) == 64
    assert read(npm()).fingerprint != read(npm(version="1.2.4")).fingerprint


@pytest.mark.parametrize(
    ("name", "called"),
    [("io.github.acme/weather", "weather"), ("@a/b__c_", "b-c"), ("///", "server"), ("x" * 99, "x" * 64)],
)
def test_a_server_is_called_by_the_last_part_of_its_manifests_name(name: str, called: str) -> None:
    assert read({"name": name, "command": ["x"]}).server_name == called
