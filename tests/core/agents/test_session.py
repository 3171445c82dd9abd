"""One session of the official SDK's own client with the server as an agent starts it, over stdio: questions with known answers,
each compared with what the library gives in this process."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from core import Capture, Edits, capture, explain, generate, head_metrics, logit_attribution, score_attribution
from core.agents.calls import CALLS
from core.agents.serving import MOST_BYTES
from core.capturing.answers import next_token
from core.claims.known import measured
from core.models.inputs import one_token
from tests.conftest import loaded
from tests.source_files import ROOT

SMOLLM, MINILM = "SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"
FRANCE = {"model": SMOLLM, "text": "The capital of France is"}
RIVER = {"model": SMOLLM, "text": "seven green doors and a cold river seven green doors and a cold river"}
TIRED = {"model": MINILM, "text": "The animal didn't cross the street because it was too tired."}
MUTED = {**FRANCE, "edits": ["mute 23.4"]}
INDUCTION = {"layer": 18, "head": 6, "query": 8, "key": 2}
DATE = {"model": "written-dates", "text": "the 3rd of march 1987", "target": "1987", "kind": "cross"}
DATE |= {"layer": 0, "head": 3, "query": 3}
LIMITS = ["--seconds", "6000", "--tokens", "20000"]
# Takes minutes.
LONG = {"model": SMOLLM, "claims": ["any head: looks at itself, at least 0.4"], "texts": ["The cat sat. " * 20_000]}
SOON = 60  # seconds, far less than that


def passed(of: dict[str, Any], **options: Any) -> Capture:
    return _passed(of["model"], of["text"], **options)


@cache
def _passed(model: str, text: str, **options: Any) -> Capture:
    return capture(loaded(model), text, **options)


def strongest(table: Any, name: str) -> list[Any]:
    row = table.iloc[int(np.nanargmax(table[name].abs()))]
    return [row["component"], row[name]] if "component" in table else [int(row["layer"]), int(row["head"]), row[name]]


def without(head: int) -> float:
    """The effect of muting a head of layer 23."""
    return next_token(passed(FRANCE), passed(FRANCE, edits=Edits(mute_heads={(23, head)}))).divergence


# Call, arguments, what of the answer is asked, and where the library says it.
QUESTIONS: list[tuple[str, dict[str, Any], Callable[[dict[str, Any]], Any], Callable[[], Any]]] = [
    ("models", {}, lambda said: [one["layers"] for one in said["models"]], lambda: [6, 30, 2]),
    ("open", FRANCE, lambda said: said["next_tokens"][0]["probability"], lambda: passed(FRANCE).next_tokens(1)[0][1]),
    ("open", FRANCE, lambda said: [said["next_tokens"][0]["token"], said["n_tokens"]], lambda: [" Paris", 5]),
    ("open", TIRED, lambda said: said["tokens"], lambda: [*passed(TIRED).tokens()[0]]),
    (
        "heads",
        {**RIVER, "by": "induction"},
        lambda said: [*said["heads"][0].values()][:3],
        lambda: strongest(head_metrics(passed(RIVER)), "induction"),
    ),
    (
        "heads",
        {**FRANCE, "by": "pair", "query": 4, "key": 3},
        lambda said: [*said["heads"][0].values()][:3],
        lambda: [23, 4, passed(FRANCE).trace(23, 4).weights[4, 3]],
    ),
    (
        "heads",
        {
            **TIRED,
            "by": "claim",
            "claim": "any head: when not the token is the first, looks at the previous token, at least 0.4",
        },
        lambda said: [said["heads"][0][name] for name in ("layer", "head", "value", "null")],
        lambda: [*strongest(head_metrics(passed(TIRED)), "previous"), 1 / 16],
    ),
    (
        "row",
        {**RIVER, "layer": 18, "head": 6, "query": 8, "most": 3},
        lambda said: [*(one["weight"] for one in said["keys"]), said["rest"]],
        lambda: [*(weights := np.sort(passed(RIVER).trace(18, 6).weights[8]))[:-4:-1], weights[:-3].sum()],
    ),
    ("row", {**TIRED, "layer": 5, "head": 11, "query": 10}, lambda said: said["keys"][0]["token"], lambda: "animal"),
    ("cell", {**RIVER, **INDUCTION}, lambda said: said["raw"], lambda: explain(passed(RIVER).trace(18, 6), 8, 2).raw),
    (
        "cell",
        {**RIVER, **INDUCTION, "query": 2, "key": 8},  # the future
        lambda said: [said["allowed"], said["weight"], said["masked"]],
        lambda: [False, 0.0, None],
    ),
    (
        "why",
        {**FRANCE, "answer": " Paris", "than": " Rome"},
        lambda said: [said["number"], *said["components"][0].values()],
        lambda: [paris_than_rome().number, *strongest(paris_than_rome(), "contribution")],
    ),
    (
        "why",
        {**RIVER, **INDUCTION},
        lambda said: [*said["components"][0].values()],
        lambda: strongest(score_attribution(passed(RIVER, components=True), 18, 6, 8, 2).by_key, "contribution"),
    ),
    (
        "what_if",
        MUTED,
        lambda said: [said["next_tokens"][0]["after"], said["effect"]],
        lambda: [passed(FRANCE, edits=Edits(mute_heads={(23, 4)})).next_tokens(1)[0][1], without(4)],
    ),
    (
        "what_if",
        MUTED,
        lambda said: [said["controls"]["n"], said["controls"]["highest"]],
        lambda: [8, max(without(head) for head in range(9) if head != 4)],
    ),
    (
        "what_if",
        {**FRANCE, "edits": ["scale 2"]},
        lambda said: next(one["after"] for one in said["next_tokens"] if one["token"] == " Paris"),
        lambda: dict(passed(FRANCE, edits=Edits(scale_by=2.0)).next_tokens(9))[" Paris"],
    ),
    (
        "row",
        DATE,
        lambda said: [said["keys"][0]["token"], said["keys"][0]["weight"]],
        lambda: ["7", passed(DATE, target=DATE["target"]).trace(0, 3, "cross").weights[3].max()],
    ),
    (
        "generate",
        {**FRANCE, "new_tokens": 3},
        lambda said: said["text"],
        lambda: generate(loaded(SMOLLM), FRANCE["text"], 3).text,
    ),
    (
        "claim",
        {"model": SMOLLM},
        lambda said: {one["claim"]: (one["head"], one["share"]) for one in said["verdicts"]},
        lambda: {
            claim: max(((row.head, row.share) for row in rows.itertuples()), key=lambda found: found[1])
            for claim, rows in measured(loaded(SMOLLM).revision).query("verdict == 'holds'").groupby("claim")
        },
    ),
    ("link", {**FRANCE, "page": "head", "layer": 23}, lambda said: "layer=23" in said["address"], lambda: True),
]


def paris_than_rome() -> Any:
    ids = [one_token(loaded(SMOLLM), word, with_blank=False, field="answer") for word in (" Paris", " Rome")]
    return logit_attribution(passed(FRANCE, components=True), *ids)


def test_there_are_twenty_questions() -> None:
    assert len(QUESTIONS) == 20
    assert {name for name, *_ in QUESTIONS} == CALLS.keys()


@pytest.fixture(scope="module")
def session() -> dict[str, Any]:
    """All that the client saw."""
    threads = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "HEADLIGHT_CACHE", "HOME") if name in os.environ}
    server = StdioServerParameters(command=sys.executable, args=["-m", "core.agents", *LIMITS], env=threads, cwd=ROOT)

    async def ask() -> dict[str, Any]:
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            answers = [await client.call_tool(name, arguments) for name, arguments, *_ in QUESTIONS]
            wrong = await client.call_tool("row", {**FRANCE, "layer": 99, "head": 0, "query": 0})
            work = asyncio.create_task(client.call_tool("claim", LONG))
            await asyncio.sleep(0.5)
            work.cancel()
            after = await client.call_tool("row", {**FRANCE, "layer": 23, "head": 4, "query": 4}, SOON)
        return {"tools": tools, "answers": answers, "wrong": wrong, "after": after}

    return asyncio.run(ask())


def test_there_are_ten_calls_with_schemas_that_say_what_numbers_are(session: dict[str, Any]) -> None:
    tools = {tool.name: tool for tool in session["tools"]}
    assert tools.keys() == CALLS.keys()
    assert len(tools) <= 10
    even = tools["row"].output_schema["properties"]["even"]["description"]
    assert "prior" in even
    assert sum(len(json.dumps([tool.input_schema, tool.output_schema])) for tool in session["tools"]) < 45_000


@pytest.mark.parametrize(
    "number", range(len(QUESTIONS)), ids=[f"{name}{place}" for place, (name, *_) in enumerate(QUESTIONS)]
)
def test_an_answer_has_the_numbers_of_the_library(session: dict[str, Any], number: int) -> None:
    *_, asked, expected = QUESTIONS[number]
    result = session["answers"][number]
    assert not result.is_error, result.content
    said = result.structured_content
    found, known = asked(said), expected()
    assert same(found, known), (found, known)
    assert json.loads(result.content[0].text) == said
    assert len(result.content[0].text.encode()) <= MOST_BYTES
    assert "certificate" not in said or said["certificate"] is None or said["certificate"]["holds"]


def same(found: Any, known: Any) -> bool:
    if isinstance(known, list | tuple):
        return len(found) == len(known) and all(map(same, found, known))
    return found == pytest.approx(known, rel=1e-4) if isinstance(known, float | np.floating) else found == known


def test_an_error_is_the_sentence_of_the_library(session: dict[str, Any]) -> None:
    assert session["wrong"].is_error
    (content,) = session["wrong"].content
    assert content.text == "layer: There is no layer 99: they run from 0 to 29."


def test_a_cancelled_call_leaves_the_turn_to_the_next(session: dict[str, Any]) -> None:
    assert session["after"].structured_content["keys"][0]["token"] == " France"
