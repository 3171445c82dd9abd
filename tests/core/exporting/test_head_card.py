"""The card of a head as Markdown: read by a Markdown reader of its own, it says what its lines say, and nothing else."""

from __future__ import annotations

import html
import re

import pytest
from markdown_it import MarkdownIt

from core.exporting.head_card import CardLine, to_markdown

HOSTILE = [
    "“<img src=x onerror=alert(1)>”",
    "`a` **b** _c_ ~~d~~ [e](http://evil.example) ![f](g)",
    "www.evil.example and https://evil.example/a_b",
    "| a | b |",
    "&lt; &#60; $x$ \\",
    "# no heading\n\n- no list\n> nor a quotation",
]


def read(text: str) -> str:
    """As a reader sees it that knows tables, struck words and bare addresses."""
    reader = MarkdownIt("commonmark", {"linkify": True, "html": True}).enable(["table", "strikethrough"])
    return reader.render(text)


@pytest.mark.parametrize("words", HOSTILE)
def test_what_others_wrote_stays_text(words):
    written = read(to_markdown(words, [CardLine(words, words, words, words)], {"text": words, words: ""}))
    assert set(re.findall(r"<(\w+)", written)) == {"h1", "h2", "ul", "li", "strong"}
    seen = html.unescape(re.sub(r"</?(h1|h2|ul|li|strong)>", "", written))
    plain = " ".join(words.split())
    assert seen.count(plain) == 7, seen


def test_lines_stand_in_their_order_with_their_numbers():
    lines = [CardLine("Here", "67.3%", "from “it”", "one text"), CardLine("Known claims", "", "None.")]
    written = to_markdown("Head 5.11", lines, {"model": "all-MiniLM-L6-v2"}).splitlines()
    assert written[:4] == ["# Head 5.11", "", "- Here: **67.3%** from “it” (one text)", "- Known claims: None."]
    assert written[-1] == "- model: all-MiniLM-L6-v2"
