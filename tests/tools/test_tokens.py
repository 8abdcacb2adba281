"""Tokens: what is estimated is near what is counted, and nothing heavy is loaded for an estimate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trunkline.errors import ConfigError
from trunkline.tools import tokens
from trunkline.tools.tokens import can_count, counted, estimated

TOOLS = Path(__file__).parents[2] / "bench" / "data" / "tools.jsonl"
needs_tokenizer = pytest.mark.skipif(not can_count(), reason="the extra `tokens` is not installed")


def definitions() -> list[str]:
    """Real tools, as a model's vendor gets them."""
    told: list[dict[str, Any]] = [json.loads(line) for line in TOOLS.read_text(encoding="utf-8").splitlines()]
    return [
        json.dumps(
            {"name": tool["name"], "description": tool["description"], "input_schema": tool.get("inputSchema", {})},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for tool in told
    ]


@needs_tokenizer
def test_a_list_of_real_tools_is_estimated_a_little_above_what_it_has() -> None:
    listed = definitions()

    share = sum(map(estimated, listed)) / sum(map(counted, listed))

    assert 1.0 <= share <= 1.06


@needs_tokenizer
def test_nine_of_ten_real_tools_are_estimated_within_a_tenth() -> None:
    shares = [estimated(text) / counted(text) for text in definitions()]

    assert sum(0.9 <= share <= 1.1 for share in shares) >= 0.9 * len(shares)
    assert min(shares) > 0.75


@needs_tokenizer
@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("Reads a file and returns its lines. Use it when you know the path; otherwise search first. " * 5, 0.1),
        ("读取文件并返回其内容。如果您知道路径，请使用它；否则请先搜索。", 0.25),
        ("ファイルを読み込んで、その内容を返します。パスがわかっている場合に使用してください。", 0.25),
        ("Liest eine Datei und gibt ihren Inhalt zurück. Nur für kurze Dateien geeignet.", 0.25),
        ("Читает файл и возвращает его содержимое. Используйте, если путь известен.", 0.5),
        ("✅ Done 🚀 😀 🔍 search 📁 files ❌ failed", 0.25),
        ('{"a":1234567,"b":[0.25,1e9,null,true],"c":{"$ref":"#/$defs/Id"}}', 0.2),
        (json.dumps({"type": "object", "properties": {"path": {"type": "string"}}}, indent=2), 0.15),
    ],
    ids=["English", "Chinese", "Japanese", "German", "Russian", "emoji", "dense JSON", "wide JSON"],
)
def test_texts_of_other_kinds_are_estimated_about_right(text: str, off: float) -> None:
    assert estimated(text) == pytest.approx(counted(text), rel=off)


@needs_tokenizer
def test_a_text_longer_than_the_tokenizer_takes_is_counted_in_parts() -> None:
    assert counted("a word " * 200_000) == pytest.approx(400_000, rel=0.01)


@pytest.mark.parametrize("text", ["", b""])
def test_nothing_has_no_tokens(text: str | bytes) -> None:
    assert estimated(text) == 0


def test_bytes_are_estimated_as_the_text_they_are() -> None:
    text = '{"name":"Größe","description":"大小"}'

    assert estimated(text.encode()) == estimated(text)
    assert estimated(b"\xff\xfe broken") > 0


def test_half_a_character_is_no_reason_to_fail() -> None:
    assert estimated("\ud83d") > 0
    assert not can_count() or counted("\ud83d") > 0


def test_an_estimate_loads_no_tokenizer() -> None:
    program = (
        "import sys; from trunkline.tools.tokens import can_count, estimated; can_count(); estimated('a b'); "
        "print('bpe_openai' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_without_the_tokenizer_counting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    tokens._encoder.cache_clear()  # pyright: ignore[reportPrivateUsage] # another test may have loaded it

    with pytest.raises(ConfigError, match=r"pip install 'trunkline\[tokens\]'"):
        counted("a")
