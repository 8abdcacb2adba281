"""JSON Schemas on their way to a vendor: references looked up, and roots made plain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from trunkline.tools.convert.definition import as_object
from trunkline.tools.convert.loss import Ledger, Path

Schema = Mapping[str, Any]
EMPTY: Schema = {"type": "object", "properties": {}}
DEEPEST = 100
"""The longest path into a schema that is followed."""


def look_up(root: Schema, reference: Any) -> Schema | None:
    """The schema that a `$ref` inside `root` points to, or nothing if it points elsewhere."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: Any = root
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and part.isdecimal() and int(part) < len(cast(list[Any], found)):
            found = cast(list[Any], found)[int(part)]
        else:
            found = (as_object(found) or {}).get(part)
    return as_object(found)


def plain_root(schema: Schema, vendor: str, ledger: Ledger, path: Path) -> dict[str, Any]:
    """The schema as an object whose members stand at the root, as every vendor wants it.

    The members of `allOf`, `anyOf` and `oneOf` are gathered; of alternatives only what all require stays required.
    """
    result = _gathered(schema, schema, set(), f"{vendor} takes no such thing at the root.", ledger, path)
    if result.get("type") != "object":
        ledger.add((*path, "type"), "became 'object'", f"{vendor} takes nothing but objects.")
        result["type"] = "object"
    return result


def _gathered(schema: Schema, root: Schema, seen: set[str], why: str, ledger: Ledger, path: Path) -> dict[str, Any]:
    """The schema without alternatives; each reference is followed once, so that no schema can make this go on."""
    result = dict(schema)
    target = look_up(root, result.get("$ref"))
    if target is not None and result["$ref"] not in seen and len(seen) < DEEPEST:
        seen.add(result.pop("$ref"))
        ledger.add((*path, "$ref"), "inlined", why)
        result = _gathered(target, root, seen, why, ledger, path) | result
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = result.get(keyword)
        if isinstance(branches, list) and len(path) < DEEPEST:
            del result[keyword]
            ledger.add((*path, keyword), "gathered into one object", why)
            listed = [as_object(branch) or {} for branch in cast(list[Any], branches)]
            plain = [
                _gathered(branch, root, seen, why, Ledger(), (*path, keyword, place))
                for place, branch in enumerate(listed)
            ]
            _gather(result, plain, every=keyword == "allOf")
    return result


def _gather(result: dict[str, Any], branches: list[dict[str, Any]], *, every: bool) -> None:
    members: dict[str, list[Any]] = {
        name: [about] for name, about in (as_object(result.get("properties")) or {}).items()
    }
    needs: list[set[str]] = []
    for branch in branches:
        for name, about in (as_object(branch.get("properties")) or {}).items():
            if about not in members.setdefault(name, []):
                members[name].append(about)
        needs.append(set(strings(branch.get("required"))))
    needed = (set[str]().union(*needs) if every else set[str].intersection(*needs)) if needs else set[str]()
    if members:
        result["properties"] = {
            name: about[0] if len(about) == 1 else {"anyOf": about} for name, about in members.items()
        }
    required = dict.fromkeys((*strings(result.get("required")), *sorted(needed)))
    if required:
        result["required"] = list(required)
    result.setdefault("type", "object")


def strings(value: Any) -> list[str]:
    """The texts of a list; anything else counts as none."""
    if not isinstance(value, list | tuple):
        return []
    return [item for item in cast("list[Any] | tuple[Any, ...]", value) if isinstance(item, str)]
