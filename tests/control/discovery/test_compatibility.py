"""Whether a tool fits a version: versions are compared as versions, and none is invented."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control.shop import discovered, tool
from trunkline import CompatibilityCheckResult
from trunkline.control.discovery.tool_info import parse_version


async def test_the_documented_example_comes_out_as_documented() -> None:
    discovery = await discovered(tool("readFile", "Read a file"), server="fs-server", version="2.0.0")

    assert discovery.check_compatibility("readFile", "fs-server", "2.0.0") == CompatibilityCheckResult(True)


async def test_a_tool_that_is_not_there_does_not_fit() -> None:
    found = (await discovered()).check_compatibility("readFile", "shop")

    assert found == CompatibilityCheckResult(False, ("Tool 'readFile' not found on server 'shop'",))


@pytest.mark.parametrize(
    ("have", "want", "issue", "warning"),
    [
        ("1.0.0", "2.0.0", "Major version mismatch: tool is v1.0.0, target is v2.0.0", ""),
        ("1.2.0", "1.10.0", "", "Minor version mismatch: tool is v1.2.0, target is v1.10.0"),
        ("1.10.0", "1.2.0", "", ""),
        ("1.2.3", "1.2.9", "", ""),
        ("v1.2", "1.2.0", "", ""),
        ("2.1", "2", "", ""),
        ("2.0.0-rc.1", "2.0.0", "", "The tool's version is not released yet: tool is v2.0.0-rc.1, target is v2.0.0"),
        ("2.0.0+build.5", "2.0.0", "", ""),
        ("2025.11.1", "2025.9.0", "", ""),
        ("latest", "2.0.0", "", "Non-standard version format: tool=latest, target=2.0.0"),
        ("2.0.0", ">=2", "", "Non-standard version format: tool=2.0.0, target=>=2"),
        ("", "2.0.0", "", "The version of tool 'get_user' is not known, so it was not compared with v2.0.0"),
        ("", "", "", ""),
    ],
)
async def test_versions_are_compared_as_versions(have: str, want: str, issue: str, warning: str) -> None:
    found = (await discovered(tool("get_user"), version=have)).check_compatibility("get_user", "shop", want)

    assert found.issues == ((issue,) if issue else ())
    assert found.warnings == ((warning,) if warning else ())
    assert found.compatible is not bool(issue)


@pytest.mark.parametrize("meta", [{"version": "3.1.0"}, {"example.org/version": "3.1.0"}])
async def test_a_tools_own_version_outranks_its_servers(meta: dict[str, Any]) -> None:
    discovery = await discovered(tool("get_user", _meta=meta), version="1.0.0")

    assert discovery.check_compatibility("get_user", "shop", "3.0.0").compatible


async def test_versions_that_a_tool_also_serves_fit() -> None:
    discovery = await discovered(tool("get_user", _meta={"version": "3.0.0", "compatibleWith": ["2.0.0"]}))

    assert discovery.check_compatibility("get_user", "shop", "2.0.0").compatible
    assert not discovery.check_compatibility("get_user", "shop", "1.0.0").compatible


@pytest.mark.parametrize("said", [{"deprecated": True}, {"_meta": {"deprecated": "Use find_user."}}])
async def test_deprecated_and_restricted_tools_fit_with_a_word_of_advice(said: dict[str, Any]) -> None:
    restricted = tool("get_user", annotations={"securityLevel": "restricted"}) | said
    found = (await discovered(restricted)).check_compatibility("get_user", "shop")

    assert found.compatible
    assert found.warnings == ("This tool is marked as deprecated",)
    assert found.recommendations == (
        "Consider using an alternative tool if available",
        "This tool requires elevated permissions",
    )


@pytest.mark.parametrize("text", ["", "x", "1.2.x", "1..2", "-1", "1" * 20, "٣.1"])
def test_what_is_no_version_is_not_taken_for_one(text: str) -> None:
    assert parse_version(text) is None
