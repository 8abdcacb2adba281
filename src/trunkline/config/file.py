"""The configuration file on its way in and out: comments and order are kept, and nothing half-written is left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, cast

from trunkline.config.reading import parse, read_document
from trunkline.errors import ConfigError
from trunkline.storage.files import replace_file


def read_file(path: Path) -> Any:
    """The file in a form that keeps comments and order when it is written again."""
    if not path.exists():
        import tomlkit

        return tomlkit.document() if path.suffix == ".toml" else {"mcpServers": {}}
    read_document(path)  # the same complaints as everywhere
    if path.suffix == ".toml":
        import tomlkit

        return tomlkit.parse(path.read_text(encoding="utf-8"))
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} has comments, which a change would lose.", hint="Edit it by hand.") from error


def servers_of(document: Any, path: Path) -> dict[str, Any]:
    """The table of servers, made if there is none."""
    key = "mcpServers" if "mcpServers" in document else "servers"
    if key not in document:
        document[key] = super_table() if path.suffix == ".toml" else {}
    return cast("dict[str, Any]", document[key])


def super_table() -> Any:
    """A table of TOML that only holds others, and needs no line of its own."""
    import tomlkit

    return tomlkit.table(is_super_table=True)


def write_file(path: Path, document: Any) -> None:
    """Replace the file at once, readable by its owner alone, as it may hold secrets; never by a broken one."""
    parse(document.unwrap() if path.suffix == ".toml" else document, env=os.environ)
    if path.suffix == ".toml":
        import tomlkit

        text = tomlkit.dumps(document)
    else:
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        replace_file(path, text.encode(), mode=mode, folder_mode=0o777)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error
