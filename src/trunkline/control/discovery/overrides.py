"""What somebody said of a tool's behaviour, to be laid over what its server says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from trunkline.tool import UNKNOWN, Annotations
from trunkline.tools.annotations import merge_annotations


@dataclass(frozen=True, slots=True)
class Override:
    """Hints that outrank all others."""

    annotations: Annotations = UNKNOWN
    alone: bool = False
    """Nothing else counts."""

    def and_also(self, more: Annotations) -> Override:
        """The same with more said; the later wins."""
        return replace(self, annotations=_laid(self.annotations, more))

    def over(self, known: Annotations) -> Annotations:
        """What is to be gone by."""
        return self.annotations if self.alone else _laid(known, self.annotations)


def _laid(below: Annotations, above: Annotations) -> Annotations:
    """Both merged; where they contradict each other, what lies below gives way."""
    drop: dict[str, Any] = {}
    if above.read_only_hint and above.destructive_hint is None and below.destructive_hint:
        drop = {"destructive_hint": False, "requires_confirmation": None}
    if above.destructive_hint and above.read_only_hint is None and below.read_only_hint:
        drop = {"read_only_hint": False, "requires_confirmation": None}
    return merge_annotations(replace(below, **drop) if drop else below, above)
