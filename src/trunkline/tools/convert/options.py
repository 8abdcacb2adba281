"""How tools are converted to and from MCP."""

from __future__ import annotations

from dataclasses import dataclass

from trunkline.errors import ConfigError
from trunkline.tool import UNKNOWN, Annotations
from trunkline.tools.annotations import validate_annotations
from trunkline.tools.convert.matrix import REVISIONS


@dataclass(frozen=True, slots=True)
class ToolConverterOptions:
    """The options of a conversion."""

    infer_annotations: bool | None = None
    """Whether the four standard hints are told from the words; by default only for tools that no server declared."""
    namespace_prefix: str = ""
    """Put before the names on the way to MCP: `myapp` and `myapp_` give `myapp_tool`."""
    remove_namespace_prefix: str = ""
    """Taken off the names on the way from MCP."""
    preserve_metadata: bool = True
    """Whether metadata, category, tags and our own hints travel in `_meta`."""
    default_annotations: Annotations = UNKNOWN
    """Hints for tools that do not say otherwise: explicit wins over default, default over inferred."""
    revision: str = ""
    """The revision of MCP to write for, such as `2025-06-18`; members that it does not know are left out."""

    def __post_init__(self) -> None:
        if self.revision and self.revision not in REVISIONS:
            raise ConfigError(
                f"There is no MCP revision {self.revision!r}.", hint=f"`revision` is one of {', '.join(REVISIONS)}."
            )
        wrong = validate_annotations(self.default_annotations)
        if wrong:
            raise ConfigError(f"`default_annotations` cannot be used: {wrong[0]}", hint="Correct or remove it.")


DEFAULT_TOOL_CONVERTER_OPTIONS = ToolConverterOptions()
