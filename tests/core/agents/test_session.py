"""One session of the official SDK's own client with the server as an agent starts it, over stdio: questions with known answers,
each compared with what the library gives in this process."""

import asyncio
import json
import os
import sys
from functools import cache
from operator import itemgetter

import numpy as np
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from core import Edits, capture, explain, generate, head_metrics, logit_attribution, score_attribution
from core.agents.calls import CALLS
from core.agents.serving import MOST_BYTES
from core.capturing.answers import next_token
from core.claims.known import measured
from core.models.inputs import one_token
from tests.conftest import loaded
from tests.depth import thorough
from tests.source_files import ROOT

SMOLLM, MINILM = "SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"
FRANCE = {"model": SMOLLM, "text": "The capital of France is"}
RIVER = {"model": SMOLLM, "text": "seven green doors and a cold river seven green doors and a cold river"}
TIRED = {"model": MINILM, "text": "The animal didn't cross the street because it was too tired."}
CLAIM = "any head: when not the token is the first, looks at the previous token, at least 0.4"
INDUCTION = {"layer": 18, "head": 6, "query": 8, "key": 2}
DATE = {"model": "written-dates", "text": "the 3rd of march 1987", "target": "1987", "kind": "cross"}
DATE |= {"layer": 0, "head": 3, "query": 3}
LIMITS = ["--seconds", "6000", "--tokens", "20000"]
# Takes minutes.
LONG = {"model": SMOLLM, "claims": ["any head: looks at itself, at least 0.4"], "texts": ["The cat sat. " * 20_000]}
SOON = 60  # seconds, far less than that


def passed(of, **options):
    return _passed(of["model"], of["text"], **options)


@cache
def _passed(model, text, **options):
    return capture(loaded(model), text, **options)


def strongest(table, name):
    row = table.iloc[int(np.nanargmax(table[name].abs()))]
    return [row["component"], row[name]] if "component" in table else [int(row["layer"]), int(row["head"]), row[name]]


def muted(head):
    """Of layer 23."""
    return passed(FRANCE, edits=Edits(mute_heads={(23, head)}))


def without(head):
    """The effect of muting it."""
    return next_token(passed(FRANCE), muted(head)).divergence


def paris_than_rome():
    ids = [one_token(loaded(SMOLLM), word, with_blank=False, field="answer") for word in (" Paris", " Rome")]
    return logit_attribution(passed(FRANCE, components=True), *ids)


def measured_claims():
    """The head of each claim that holds, and its share."""
    found = measured(loaded(SMOLLM).revision).query("verdict == 'holds'").groupby("claim")
    return {claim: max(zip(rows["head"], rows["share"], strict=True), key=itemgetter(1)) for claim, rows in found}


def first(said, rows):
    return [*said[rows][0].values()][:3]


QUESTIONS = {  # the call and its arguments
    "models": ("models", {}),
    "text": ("open", FRANCE),
    "induction": ("heads", {**RIVER, "by": "induction"}),
    "pair": ("heads", {**FRANCE, "by": "pair", "query": 4, "key": 3}),
    "claim": ("heads", {**TIRED, "by": "claim", "claim": CLAIM}),
    "row": ("row", {**RIVER, "layer": 18, "head": 6, "query": 8, "most": 3}),
    "cell": ("cell", {**RIVER, **INDUCTION}),
    "future": ("cell", {**RIVER, **INDUCTION, "query": 2, "key": 8}),
    "answer": ("why", {**FRANCE, "answer": " Paris", "against": " Rome"}),
    "score": ("why", {**RIVER, **INDUCTION}),
    "muted": ("what_if", {**FRANCE, "edits": ["mute 23.4"]}),
    "cross": ("row", DATE),
    "written": ("generate", {**FRANCE, "new_tokens": 3}),
    "claims": ("claim", {"model": SMOLLM}),
    "link": ("link", {**FRANCE, "page": "head", "layer": 23}),
}


def answers(said):
    """What of each answer is asked, and what the library says of it."""
    france, river = passed(FRANCE), passed(RIVER)
    yield "models", [one["layers"] for one in said["models"]["models"]], [6, 30, 2]
    found = [said["text"]["tokens"], *said["text"]["next_tokens"][0].values()]
    yield "text", found, [france.tokens()[0], *france.next_tokens(1)[0]]
    yield "induction", first(said["induction"], "heads"), strongest(head_metrics(river), "induction")
    yield "pair", first(said["pair"], "heads"), [23, 4, france.trace(23, 4).weights[4, 3]]
    found = [said["claim"]["heads"][0][name] for name in ("layer", "head", "value", "null")]
    yield "claim", found, [*strongest(head_metrics(passed(TIRED)), "previous"), 1 / 16]
    weights = np.sort(river.trace(18, 6).weights[8])
    found = [*(one["weight"] for one in said["row"]["keys"]), said["row"]["rest"]]
    yield "row", found, [*weights[:-4:-1], weights[:-3].sum()]
    yield "cell", said["cell"]["raw"], explain(river.trace(18, 6), 8, 2).raw
    yield "future", [said["future"][name] for name in ("allowed", "weight", "masked")], [False, 0.0, None]
    paris = paris_than_rome()
    found = [said["answer"]["number"], *first(said["answer"], "components")]
    yield "answer", found, [paris.number, *strongest(paris, "contribution")]
    score = score_attribution(passed(RIVER, components=True), 18, 6, 8, 2)
    yield "score", first(said["score"], "components"), strongest(score.by_key, "contribution")
    controls = said["muted"]["controls"]
    found = [said["muted"]["next_tokens"][0]["after"], said["muted"]["effect"], controls["n"], controls["highest"]]
    others = [without(head) for head in range(9) if head != 4]
    yield "muted", found, [muted(4).next_tokens(1)[0][1], without(4), 8, max(others)]
    weight = passed(DATE, target=DATE["target"]).trace(0, 3, "cross").weights[3].max()
    yield "cross", [said["cross"]["keys"][0][name] for name in ("token", "weight")], ["7", weight]
    yield "written", said["written"]["text"], generate(loaded(SMOLLM), FRANCE["text"], 3).text
    found = {one["claim"]: (one["head"], one["share"]) for one in said["claims"]["verdicts"]}
    yield "claims", found, measured_claims()
    yield "link", "layer=23" in said["link"]["address"], True


@thorough
def test_calls_have_schemas_errors_are_sentences_and_a_cancelled_call_leaves_the_turn_to_the_next(session):
    assert {name for name, _ in QUESTIONS.values()} == CALLS.keys()
    tools = {tool.name: tool for tool in session["tools"]}
    assert tools.keys() == CALLS.keys()
    assert len(tools) <= 10
    even = tools["row"].output_schema["properties"]["even"]["description"]
    assert "prior" in even
    assert sum(len(json.dumps([tool.input_schema, tool.output_schema])) for tool in session["tools"]) < 45_000
    assert session["wrong"].is_error
    (content,) = session["wrong"].content
    assert content.text == "layer: There is no layer 99: they run from 0 to 29."
    assert session["after"].structured_content["keys"][0]["token"] == " France"


@pytest.fixture(scope="module")
def session():
    """All that the client saw."""
    threads = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "HEADLIGHT_CACHE", "HOME") if name in os.environ}
    server = StdioServerParameters(command=sys.executable, args=["-m", "core.agents", *LIMITS], env=threads, cwd=ROOT)

    async def ask():
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            answers = {name: await client.call_tool(*asked) for name, asked in QUESTIONS.items()}
            wrong = await client.call_tool("row", {**FRANCE, "layer": 99, "head": 0, "query": 0})
            work = asyncio.create_task(client.call_tool("claim", LONG))
            await asyncio.sleep(0.5)
            work.cancel()
            after = await client.call_tool("row", {**FRANCE, "layer": 23, "head": 4, "query": 4}, SOON)
        return {"tools": tools, "answers": answers, "wrong": wrong, "after": after}

    return asyncio.run(ask())


@thorough
def test_answers_have_the_numbers_of_the_library(session):
    said = {name: result.structured_content for name, result in session["answers"].items()}
    for name, result in session["answers"].items():
        assert not result.is_error, result.content
        assert json.loads(result.content[0].text) == said[name]
        assert len(result.content[0].text.encode()) <= MOST_BYTES
        assert (
            "certificate" not in said[name] or said[name]["certificate"] is None or said[name]["certificate"]["holds"]
        )
    compared = [*answers(said)]
    assert [name for name, *_ in compared] == [*QUESTIONS]
    assert [one for one in compared if not same(*one[1:])] == []


def same(found, known):
    if isinstance(known, list | tuple):
        return len(found) == len(known) and all(map(same, found, known))
    return found == pytest.approx(known, rel=1e-4) if isinstance(known, float | np.floating) else found == known
