"""What an agent may send: all is answered, in few bytes, with a sentence where it cannot be done, and nothing else is read."""

import io
import itertools
import json
import os
import sys

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from core import check_model
from core.agents import serving
from core.agents.answers import Answer
from core.agents.calls import CALLS
from core.agents.host import Ended, Host, Limits
from core.agents.serving import MOST_BYTES, Calls
from core.heads.metrics import NAMES
from core.models import loading
from tests.core.tiny_models import number_words, tiny
from tests.depth import thorough
from tests.refusals import refused
from tests.source_files import ROOT

MINILM, DATES = "all-MiniLM-L6-v2", ROOT / "core/models/written_dates"
SHORT = {"model": MINILM, "text": "The cat sat."}
CELL = {**SHORT, "layer": 0, "head": 0, "query": 1, "key": 1}


@pytest.fixture(scope="module")
def short(calls):
    """Of a host that reads 64 tokens."""
    host = Host(Limits(tokens=64))
    host.model = calls._host.model
    return Calls(host)


@pytest.mark.parametrize(
    ("name", "arguments", "field", "words"),
    [
        ("nothing", {}, "call", "There is no call 'nothing': there are models, open, heads"),
        (None, {}, "call", "no call None"),
        ("open", [], "arguments", "valid dictionary"),
        ("open", {}, "model", "“model” is missing"),
        ("open", {**SHORT, "more": 1}, "more", "no “more” here, only model, text, target, kind, first"),
        ("open", {**SHORT, "text": "   "}, "text", "The text is blank"),
        ("open", {**SHORT, "text": "cat " * 100}, "text", "has 102 tokens; at most 64 can be read"),
        ("open", {**SHORT, "text": "x" * 5_000}, "text", "has 5,000 characters; this host reads at most 64 tokens"),
        ("open", {**SHORT, "text": "\ud800"}, "text", "unicode"),
        ("open", {**SHORT, "kind": "cross"}, "kind", "has no cross attention, only self"),
        ("heads", {**SHORT, "by": "beauty"}, "by", "ranked by one of entropy"),
        ("heads", {**SHORT, "by": "pair", "query": 1}, "key", "needs a key"),
        ("heads", {**SHORT, "by": "pair", "query": 1, "key": 99}, "key", "There is no key 99: they run from 0 to 5"),
        ("heads", {**SHORT, "by": "claim", "claim": "x"}, "claim", "is not a claim. Write it like this"),
        ("heads", {**SHORT, "by": "induction"}, "by", "nothing to measure"),
        ("row", {**CELL, "key": 1}, "key", "no “key” here"),
        ("cell", {**CELL, "layer": 6}, "layer", "There is no layer 6: they run from 0 to 5"),
        ("cell", {**CELL, "head": -1}, "head", "greater than or equal to 0"),
        ("cell", {**CELL, "query": 1.5}, "query", "valid integer"),
        ("cell", {**CELL, "layer": True}, "layer", "“layer” cannot be True: Input should be a valid integer"),
        ("cell", {**CELL, "head": "0"}, "head", "valid integer"),
        ("cell", {**CELL, "layer": 10**400}, "layer", "less than or equal to 1000000"),
        ("generate", {**SHORT, "temperature": float("nan")}, "temperature", "cannot be nan"),
        ("why", {**SHORT, "answer": " dog"}, "model", "predicts no next token"),
        ("why", {**SHORT, "layer": 1}, "head", "needs a head"),
        ("what_if", {**SHORT, "edits": ["explode 1.1"]}, "edits", "a change begins with one of mute"),
        ("what_if", {**SHORT, "edits": []}, "edits", "There is no change"),
        ("what_if", {**SHORT, "edits": ['patch 1.1 from "' + "cat " * 200 + '"']}, "edits", "202 tokens; at most 64"),
        ("generate", SHORT, "model", "writes nothing"),
        ("generate", {**SHORT, "temperature": 0.01}, "temperature", "0, or from 0.1"),
        ("generate", {**SHORT, "edits": [f'mean 1.1 over "{"cat " * 100}"']}, "edits", "102 tokens; at most 64"),
        ("claim", {"model": MINILM, "claims": ["0.0: looks at the moon, at least 0.4"]}, "claim", "moon"),
        ("claim", {"model": MINILM, "claims": ["9.9: looks at itself, at least 0.4"]}, "claims", "no head 9.9"),
        ("claim", {"model": MINILM, "texts": ["cat " * 1_000]}, "texts", "at most 3,200"),
        ("link", {**SHORT, "page": "heads", "edits": ["mute 1.1"]}, "edits", "Only the page what_if"),
    ],
)
def test_what_cannot_be_done_is_said(short, name, arguments, field, words):
    with refused(field, words) as error:
        short.answer(name, arguments)
    assert len(str(error.value)) < 1_000


def test_nothing_is_read_but_what_is_allowed(tmp_path, monkeypatch):
    """The same words for what is there and what is not; nor does a link lead out of a folder that is allowed."""
    (inside := tmp_path / "inside").mkdir()
    (inside / "model").symlink_to(DATES)
    (inside / "away").symlink_to(tmp_path)
    monkeypatch.setattr(loading, "_locate", lambda *_, **__: pytest.fail("something was looked for"))
    names = [str(DATES), "/etc/passwd", "/no/such", "org/name", "~", "."]
    calls = Calls(Host(Limits(folders=(str(inside),))))
    said = set()
    for name in [*names, *(f"{inside}/{name}" for name in ("../x", "away", "model"))]:
        with refused("model", "This host does not load that") as error:
            calls.answer("open", {**SHORT, "model": name})
        said.add(str(error.value))
    assert len(said) == 1


def test_a_folder_that_is_allowed_is_listed_and_read():
    calls = Calls(Host(Limits(folders=(str(DATES.parent),))))
    (name,) = [one["name"] for one in calls.answer("models", {})["models"] if "/" in one["name"]]
    assert name == str(DATES)
    assert calls.answer("open", {"model": name, "text": "3 March 1987"})["certificate"]["holds"]


def test_of_a_folder_what_can_be_said_and_loaded_is_listed(tmp_path):
    for name in ("a.gguf", "two\nlines.gguf", "\udcff.gguf", "\u202egguf.a.gguf"):
        (tmp_path / name).touch()
    (tmp_path / "dates").symlink_to(DATES)
    folders = tmp_path, tmp_path / "gone", tmp_path / "a.gguf"
    said = Calls(Host(Limits(folders=tuple(map(str, folders))))).answer("models", {})
    assert [one["name"] for one in said["models"] if "/" in one["name"]] == [str(tmp_path / "a.gguf")] * 2
    with refused("model", r"a path in .*'?\\udcff"):
        Calls(Host(Limits(folders=("/\udcff",)))).answer("open", {**SHORT, "model": "x/y"})


@thorough
def test_an_answer_that_is_too_large_loses_the_ends_of_its_lists(calls):
    said = calls.answer("open", {**SHORT, "text": "extraordinary " * 500})
    assert said["cut"] == {"tokens": said["n_tokens"]}
    assert 100 < len(said["tokens"]) < said["n_tokens"]
    rest = calls.answer("open", {**SHORT, "text": "extraordinary " * 500, "first": said["n_tokens"] - 2})
    assert rest["tokens"] == ["extraordinary", "[SEP]"]
    assert rest["cut"] == {}


def test_time_is_up_and_cancelled_work_ends():
    host = Host(Limits(seconds=1e-6))
    host.model(MINILM)
    with refused("seconds", "takes longer than 1e-06 s, the longest that this host computes"):
        Calls(host).answer("heads", {"model": MINILM, "by": "induction"})
    asked = iter([True, True, True])
    with pytest.raises(Ended):
        Calls(Host(Limits())).answer("heads", {"model": MINILM, "by": "induction"}, lambda: next(asked, False))


def test_when_half_of_the_time_is_over_a_verdict_is_on_what_was_read(monkeypatch):
    monkeypatch.setattr(Host, "has_time", False)
    said = Calls(Host(Limits())).answer(
        "claim", {"model": MINILM, "claims": ["any head: looks at itself, at least 0.4"]}
    )
    assert (said["n_passages"], said["verdicts"][0]["verdict"]) == (1, "cannot be said")
    assert said["n_asked"] > 20


class PanicException(BaseException):
    """As Rust's are called."""


@pytest.mark.parametrize("fault", [ZeroDivisionError, PanicException])
def test_a_fault_of_ours_is_a_sentence_too(fault, monkeypatch):
    def fail(host: Host) -> Answer:  # noqa: ARG001 - as calls are
        raise fault("division by zero\nat line 3")

    monkeypatch.setitem(CALLS, "models", fail)
    why = rf"failed inside Headlight, not by what you asked \({fault.__name__}: division by zero\)"
    with refused("call", why):
        Calls(Host(Limits())).answer("models", {})


LINES = ["mute 1.1", "scale 9 at 2", "block pair 1>0", 'token 1 "dog"', "cut 0.0 from the key of 1.1", "paint"]
CLAIMS = ["0.1: looks at itself, at least 0.1", "any head: always, looks at punctuation, at least 1", "9.9: looks"]
ANY = st.text(max_size=20)
TEXTS = st.sampled_from(["the 3 of May", "a b, a b!", "<b> $x$ \u202e 東京", "1987 " * 20]) | ANY
SMALL = st.integers(0, 6)
FITTING = {
    "model": st.sampled_from([MINILM, "written-dates"]),
    "by": st.sampled_from([*NAMES, "pair", "claim"]),
    "kind": st.sampled_from(["self", "encoder", "decoder", "cross"]),
    "page": st.sampled_from(["heads", "what_if"]),
    "claim": st.sampled_from(CLAIMS),
    "claims": st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=2),
    "texts": st.lists(TEXTS, min_size=1, max_size=2),
    "edits": st.lists(st.sampled_from(LINES), max_size=2),
    "temperature": st.floats(0, 5),
    **dict.fromkeys(("text", "like", "target"), TEXTS),
    **dict.fromkeys(("answer", "against"), st.sampled_from([" a", "7", "two words"])),
}
ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*LINES, *CLAIMS, "/etc/passwd"]) | ANY
VALUES = st.one_of(ODD, st.lists(ODD, max_size=3), st.dictionaries(st.text(max_size=5), ODD, max_size=2))


@st.composite
def requests(draw):
    """A call whose arguments fit their types, but perhaps one."""
    name = draw(st.sampled_from([*CALLS]))
    schema = Calls(Host(Limits())).each[name].description["input"]
    named = [*schema["properties"]]
    given = [word for word in named if word in schema.get("required", ()) or draw(st.booleans())]
    odd = draw(st.dictionaries(st.sampled_from([*named, "other"]), VALUES, max_size=1)) if draw(st.booleans()) else {}
    return name, {word: draw(FITTING.get(word, SMALL)) for word in given} | odd


@pytest.fixture(scope="module")
def opened_files():
    """The files that this process opens, from now on."""
    opened = set()
    is_on = [True]

    def note(event, arguments):
        if is_on[0] and event == "open" and isinstance(arguments[0], str):
            opened.add(os.path.realpath(arguments[0]))

    sys.addaudithook(note)
    yield opened
    is_on[0] = False


@thorough
@settings(max_examples=int(os.environ.get("AGENT_REQUESTS", "25")))
@given(requests())
def test_any_request_is_answered(short, opened_files, request_):
    name, arguments = request_
    said = serving.answered(short, json.dumps({"id": 1, "call": name, "arguments": arguments}).encode())
    line = json.dumps(said, ensure_ascii=False)
    event(f"{name}: {said['error']['field'] if 'error' in said else 'answered'}")
    assert said.keys() <= {"id", "answer", "error"}
    assert len(line.encode()) <= MOST_BYTES + 100
    assert "Traceback" not in line
    assert "failed inside" not in line, (name, arguments)
    assert "/etc/passwd" not in opened_files


def test_lines_are_answered_one_by_one(short):
    asked = [
        b'{"id": 7, "call": "open", "arguments": {"model": "all-MiniLM-L6-v2", "text": "a <b>"}}',
        b"",
        b"no json",
        b"[1]",
        b'{"call": "help"}',
        b'{"id": "last", "call": "models"}',
    ]
    out = io.BytesIO()
    serving.serve_lines(short._host, io.BytesIO(b"\n".join(asked)), out)
    opened, no_json, no_object, help_, last = map(json.loads, out.getvalue().splitlines())
    assert opened["id"] == 7
    assert opened["answer"]["tokens"][2] == "<"
    assert [one["error"]["field"] for one in (no_json, no_object)] == ["line"] * 2
    assert [call["name"] for call in help_["answer"]["calls"]] == [*CALLS]
    assert last["id"] == "last"
    assert len(last["answer"]["models"]) == 3


def only_json(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize(
    ("line", "id_", "field", "words"),
    [
        (rb'{"id": "\ud800", "call": "x"}', "\ud800", "call", "no call 'x'"),
        (rb'{"id": [null, {"\udfff": -0.0}], "call": "\ud800"}', [None, {"\udfff": 0}], "call", r"'\ud800'"),
        (b'{"id": 1e999, "call": "x"}', None, "line", "1e999 is too large for a number"),
        (b'{"id": [-1e400], "call": "x"}', None, "line", "-1e400 is too large"),
        (b'{"id": NaN, "call": "x"}', None, "line", "JSON has no NaN"),
        (b'{"id": 1, "call": "x", "arguments": {"a": -Infinity}}', None, "line", "JSON has no -Infinity"),
        (b'{"id": 1' + b"0" * 5_000 + b"}", None, "line", "4300 digits"),
        (b'{"id": "' + b"x" * 200 + b'"}', None, "id", "at most 100 characters"),
        (b'{"id": ' + b"[" * 200 + b"]" * 200 + b"}", None, "line", "nested too deeply"),
        (b'{"a":' * 100_000, None, "line", "nested too deeply"),
        (b'{"id": 1, "id": 2, "call": "x"}', None, "line", "gives id twice"),
        (rb'{"call": "open", "arguments": {"text": "a", "\u0074ext": "b"}}', None, "line", "gives text twice"),
        (b"{" + b",".join(b'"%d":%d' % (n % 70_000, n) for n in range(70_001)) + b"}", None, "line", "gives 0 twice"),
        (b'{"id": 1, "call": "models", "args": {}}', 1, "line", "no “args” here, only id, call and arguments"),
        (b'{"id": 3, "call": "models", "arguments": null}', 3, "arguments", "valid dictionary"),
        (b'{"id": 3, "call": {"models": 1}}', 3, "call", "There is no call"),
        (b'{"id": 3, "call": "models", "arguments": {"\xff": 1}}', None, "line", "decode byte 0xff"),
        (b'\xef\xbb\xbf{"id": 3}', None, "line", "BOM"),
        (b'{"call": "models"}' + b" " * serving.MOST_LINE + b"?", None, "line", "more than 1,000,000 bytes"),
        (b" " * (serving.MOST_LINE + 5), None, "line", "more than 1,000,000 bytes"),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_a_line_that_cannot_be_read_is_answered_in_json_and_the_next_one_too(short, line, id_, field, words):
    out = io.BytesIO()
    serving.serve_lines(short._host, io.BytesIO(line + b'\n{"id": "next", "call": "models"}'), out)
    wrong, next_ = (json.loads(one, parse_constant=only_json) for one in out.getvalue().splitlines())
    assert (wrong["id"], wrong["error"]["field"], next_["id"]) == (id_, field, "next")
    assert words in wrong["error"]["message"]
    assert len(out.getvalue().splitlines()[0]) < 1_000


def test_nothing_holds_of_a_model_whose_checkup_failed(tmp_path):
    network = tiny("Llama")
    network.save_pretrained(tmp_path)
    number_words().save_pretrained(tmp_path)
    host = Host(Limits(folders=(str(tmp_path),)))
    model = host.model(str(tmp_path))
    asked = {"model": str(tmp_path), "text": "3 5 3"}
    assert Calls(host).answer("open", asked)["certificate"]["holds"]
    model.network.model.layers[0].self_attn.scaling = 1.0
    check_model(model)
    for call, more in (("open", {}), ("cell", {"layer": 0, "head": 0, "query": 1, "key": 1}), ("why", {"answer": "7"})):
        certificate = Calls(host).answer(call, asked | more)["certificate"]
        assert not certificate["holds"]
        assert "own code" in certificate["fault"]
