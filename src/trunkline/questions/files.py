"""Files as answers: read from what a person or a program named, and held against what was asked for."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, cast

from trunkline.questions.fields import FileReference
from trunkline.questions.kinds import FileRequest


def read_files(value: Any) -> tuple[FileReference, ...]:
    """The files that an answer names, by path, by mapping or by reference; empty when it is not such an answer."""
    given = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]
    files = [_file(one) for one in given]
    return tuple(file for file in files if file) if None not in files else ()


def file_problems(request: FileRequest, files: tuple[FileReference, ...]) -> tuple[str, ...]:
    """Why these files are no answer; a size that is limited must be known."""
    if not files:
        return ("The answer must name a file.",)
    if len(files) > 1 and not request.multiple:
        return ("The answer must name one file only.",)
    problems: list[str] = []
    if request.accept and not all(any(_accepted(wanted, file) for wanted in request.accept) for file in files):
        problems.append(f"The file must be one of: {', '.join(request.accept)}.")
    if request.max_size is not None and any(file.size is None for file in files):
        problems.append("The file's size must be known.")
    elif request.max_size is not None and any(not 0 <= (file.size or 0) <= request.max_size for file in files):
        problems.append(f"The file may have at most {request.max_size} bytes.")
    return tuple(problems)


def _file(given: Any) -> FileReference | None:
    if isinstance(given, FileReference):
        return given
    if isinstance(given, str | PurePath):
        return FileReference(PurePath(given).name, path=str(given)) if str(given) else None
    if not isinstance(given, Mapping):
        return None
    found = cast("Mapping[str, Any]", given)
    path, uri, name = found.get("path", ""), found.get("uri", ""), found.get("name", "")
    media_type, size = found.get("media_type", found.get("mediaType", "")), found.get("size")
    if not all(isinstance(text, str) for text in (path, uri, name, media_type)) or not (path or uri or name):
        return None
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        return None
    # The file's own name is judged, not one that is given beside it.
    return FileReference(PurePath(path or uri).name or name, path, uri, size, media_type)


def _accepted(wanted: str, file: FileReference) -> bool:
    wanted = wanted.strip().lower()
    if wanted.startswith("."):
        return file.name.lower().endswith(wanted)
    kind = (file.media_type or mimetypes.guess_type(file.name)[0] or "").lower()
    return wanted in ("*/*", kind) or (wanted.endswith("/*") and kind.startswith(wanted[:-1]))
