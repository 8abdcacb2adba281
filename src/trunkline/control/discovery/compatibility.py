"""Whether a tool fits the version that somebody wants of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trunkline.control.discovery.tool_info import EnhancedToolInfo


@dataclass(frozen=True, slots=True)
class CompatibilityCheckResult:
    """`compatible` unless there are issues; warnings and recommendations are for people."""

    compatible: bool
    issues: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    recommendations: tuple[str, ...] = ()


def check_tool(tool: EnhancedToolInfo, target_version: str = "") -> CompatibilityCheckResult:
    """Another major version does not fit; an older minor one, an unknown one or a deprecated tool deserve a warning."""
    issues, warnings = _compared(tool, target_version) if target_version else ([], [])
    recommendations: list[str] = []
    if not tool.is_available:
        warnings.append(f"Server '{tool.server_id}' cannot be reached now")
    if tool.deprecated:
        warnings.append("This tool is marked as deprecated")
        recommendations.append("Consider using an alternative tool if available")
    if tool.annotations.security_level == "restricted":
        recommendations.append("This tool requires elevated permissions")
    return CompatibilityCheckResult(not issues, tuple(issues), tuple(warnings), tuple(recommendations))


def parse_version(text: str) -> tuple[int, int, int, bool] | None:
    """Major, minor, patch, and whether it is a release; `None` for what is no version. Such numbers can be compared."""
    found = _VERSION.fullmatch(text.strip())
    if found is None:
        return None
    major, minor, patch, before = found.groups()
    return int(major), int(minor or 0), int(patch or 0), before is None


_VERSION = re.compile(
    r"[vV]?([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:\.([0-9]{1,9}))?(?:\.[0-9]{1,9})*(-?[A-Za-z][\w.-]*|-[\w.-]+)?(?:\+[\w.-]+)?"
)


def _compared(tool: EnhancedToolInfo, target: str) -> tuple[list[str], list[str]]:
    if not tool.version:
        return [], [f"The version of tool '{tool.name}' is not known, so it was not compared with v{target}"]
    have, want = parse_version(tool.version), parse_version(target)
    if have is None or want is None:
        return [], [f"Non-standard version format: tool={tool.version}, target={target}"]
    if any(parse_version(also) == want for also in tool.compatible_with):
        return [], []
    spelled = f"tool is v{tool.version.lstrip('vV')}, target is v{target.lstrip('vV')}"
    if have[0] != want[0]:
        return [f"Major version mismatch: {spelled}"], []
    if have[1] < want[1]:
        return [], [f"Minor version mismatch: {spelled}"]
    if have[:3] == want[:3] and have < want:
        return [], [f"The tool's version is not released yet: {spelled}"]
    return [], []
