"""The page "Generation": what it says of a step is what the model did in it, and what cannot be written is said."""

import numpy as np
import pytest
import transformers as t
from streamlit.testing.v1 import AppTest

from core import generate, load_model
from core.capturing.sampling import Sampling
from tests.core.tiny_models import (
    CAUSAL_WEIGHTS,
    LONG_ROPE,
    PHI3_BEYOND_ITS_FIRST_LENGTH,
    SHARED,
    number_words,
    randomised,
    tiny,
)
from tests.pages.app import choose, go, new, opened, saved, words
from tests.written_numbers import number
from ui import state
from ui.requests import ModelChoice, TextRequest, WritingRequest
from ui.views.generation import page as generation
from ui.views.generation.page import FirstTokens, written_after

DATES, DATE = "written-dates", "the 3rd of march 1987"


@pytest.fixture
def two_tokens(monkeypatch):
    """A page without an address writes so many, which takes a tenth of the time."""
    monkeypatch.setattr(generation, "OPENING_TOKENS", 2)


@pytest.fixture(scope="module")
def dates():
    return load_model(DATES)


def page(**said: str) -> AppTest:
    return opened("generation", **{state.MODEL: DATES, state.TEXT: DATE} | said)


def said_of(row: np.ndarray, keys: tuple[str, ...]) -> str:
    return f"gives **{row.max():.1%}** of its attention to “{keys[row.argmax()]}”"


def test_each_step_says_where_the_query_before_its_token_looks(dates):
    written = generate(dates, DATE)
    assert written.text.startswith("1987-03-03")
    for step, word in ((1, "1"), (4, "7"), (10, "3")):
        app = page(step=str(step), head="1")
        last = written.capture_of(step - 1)
        row, keys = last.trace(0, 1, "cross").weights[-1], last.tokens("cross")[1]
        assert f"“{word}” is written after" in words(app)
        assert said_of(row, keys) in words(app)
    app = page(step="3", kind="decoder")
    row = written.capture_of(2).trace(0, 0, "decoder").weights[-1]
    assert said_of(row, ("<s>", "1", "9")) in words(app)


def test_the_rows_are_those_of_one_full_pass():
    said = words(page(new="5"))
    difference = said.partition("no weight of the 5 steps differs by more than ")[2].split()[0].rstrip(".")
    assert number(difference) < 2e-5
    assert "Agrees" in said


@pytest.mark.thorough
def test_a_text_that_is_read_anew_in_the_middle(tmp_path):
    """Phi-3 with 10 tokens before: step 8 reads the whole text, and the rows before it are those of their own steps."""
    network = randomised(PHI3_BEYOND_ITS_FIRST_LENGTH())
    network.generation_config.eos_token_id = None
    text = {"model": saved(tmp_path, network), "text": "5 9 17 33 8 21 40 11 7 13", "new": "9"}
    said = words(page(**text, rows="text", step="3"))
    assert "In step 8 the whole text was read anew, without the cache." in said
    difference = said.partition("no weight of the 9 steps differs by more than ")[2].split()[0].rstrip(".")
    assert number(difference) < 2e-5
    network.generation_config.use_cache = False
    said = words(page(**text | {"model": saved(tmp_path / "without", network)}, rows="steps"))
    assert "Every step read the whole text: nothing came from a cache." in said


def test_a_model_whose_weights_depend_on_how_much_it_reads_at_once(tmp_path):
    """Llama with Phi-3's positions does not leave its cache: its keys keep the positions that they were made with."""
    network = randomised(t.LlamaForCausalLM(t.LlamaConfig(**SHARED, **LONG_ROPE)))
    network.generation_config.eos_token_id = None
    said = words(page(model=saved(tmp_path, network), text="5 9 17 33 8 21 40 11 7 13", new="9"))
    difference = number(said.partition("a weight of the 9 steps differs by ")[2].split()[0].rstrip("."))
    assert difference > 0.01
    assert "In transformers this model computes something else while it writes." in said


def test_more_tokens_go_on_from_those_that_are_there(dates):
    app = page(new="2", temperature="1")
    request = WritingRequest(TextRequest(ModelChoice(DATES), DATE), False, Sampling())
    writing = written_after(request)
    assert FirstTokens(writing, 2).done == 2
    before = writing.generating.so_far().steps[:2]
    app = choose(app, state.NEW_TOKENS, 40)
    assert writing.generating.so_far().steps[:2] == before
    assert "The model ended its text here." in words(app)
    assert FirstTokens(writing, 40).total == FirstTokens(writing, 40).done == len(generate(dates, DATE, 40).token_ids)


def test_a_text_takes_what_was_counted():
    writing = written_after(WritingRequest(TextRequest(ModelChoice(DATES), DATE), False, Sampling()))
    generation = writing.generating.write(20)
    joined = generation.capture_of(-1)
    calls = [new.call for step in generation.steps for rows in step.rows.values() for new in rows]
    calls += [call for layers in joined.calls.values() for call in layers]
    tensors = [part for call in calls for part in (call.query, call.key, call.value, call.output)]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    logits = {id(step.logits): step.logits.nbytes for step in generation.steps}
    taken = sum(storages.values()) + sum(logits.values()) + max(step.cache_bytes for step in generation.steps)
    assert taken <= writing.nbytes < 2 * taken


def test_drawn_tokens_are_those_of_the_seed(dates):
    hot = {"choice": "drawn", "heat": "4.0", "top_k": "5", "top_p": "0.9", "seed": "7"}
    theirs = generate(dates, DATE, 12, 4.0, 7, top_k=5, top_p=0.9)
    app = page(new="12", **hot)
    assert f"“{theirs.tokens[0]}” was drawn" in words(app)
    request = WritingRequest(TextRequest(ModelChoice(DATES), DATE), False, Sampling(4.0, 5, 0.9, 7))
    assert FirstTokens(written_after(request), 12).so_far().token_ids == theirs.token_ids


def test_what_a_step_took_from_the_cache_and_what_it_saves(dates):
    written = generate(dates, DATE)
    one, (with_cache, without) = written.steps[3], written.multiplications(3)
    said = words(page(step="4", beside="cache"))
    assert f"1 token was computed, **{one.cached}** came from the cache" in said
    assert f"**{one.cache_bytes / 1e6:,.2f} MB**" in said
    assert f"{with_cache:,} multiplications; reading everything anew takes {without:,}" in said


@pytest.mark.parametrize("rows", ["text", "steps", "layer", "heads"])
def test_every_view_of_a_step(rows):
    assert "is written after" in words(page(rows=rows, beside="heat", step="2"))


def test_what_cannot_be_written_is_said_beside_its_field(tmp_path):
    assert "The text is blank" in words(page(text="  "))
    assert "at most 64 can be read" in words(page(text="5" * 80))
    assert "predicts no next token" in words(page(model="all-MiniLM-L6-v2", text="a cat"))
    gptj, bert = saved(tmp_path / "gptj", randomised(CAUSAL_WEIGHTS["GPT-J"]())), saved(tmp_path / "bert", tiny("BERT"))
    assert "keeps its queries, keys and values to itself" in words(page(model=gptj, text="5 6"))
    assert "writes nothing" in words(page(model=bert, text="5 6"))


def test_a_chat_template_that_fails_is_said_and_the_text_can_be_continued(tmp_path):
    tokenizer = number_words()
    tokenizer.chat_template = "{{ range(10**9) }}"
    said = {"model": saved(tmp_path, tiny("GPT-2"), tokenizer), "text": "5 6", "new": "2"}
    app = page(**said, chat="true")
    assert f"The chat template of {tmp_path.name} fails: " in words(app)
    assert (app.get_by_key(state.TEXT).value, app.get_by_key(state.CHAT).value) == ("5 6", True)
    assert "is written after" in words(page(**said))


def test_numbers_of_an_address_that_are_out_of_range_are_passed_over():
    app = page(choice="drawn", seed="123456", heat="-3", top_p="7", top_k="1e99", new="100000", step="77")
    assert "is written after" in words(app)
    assert "“77”" in "".join(warning.value for warning in app.warning)


@pytest.mark.thorough
@pytest.mark.usefixtures("smollm", "two_tokens")
def test_who_comes_with_a_model_that_only_reads_finds_one_that_writes():
    app = go(opened("heads", model="all-MiniLM-L6-v2"), "generation")
    assert app.get_by_key(state.MODEL).value == "SmolLM2-135M-Instruct"
    assert "is written after" in words(app)


@pytest.mark.usefixtures("two_tokens")
def test_it_opens_with_something_to_see_for_a_model_of_either_kind():
    """A model that writes on opens with Paris, and one that reads dates with a date."""
    app = go(new(), "generation")
    found = "“·Paris” is written after “·is”, which gives **90.3%** of its attention to “·France” in head 23.4."
    assert found in words(app)
    choose(app, state.MODEL, DATES)
    assert app.get_by_key(state.TEXT).value == DATE
    assert "“1” is written after “<s>”" in words(app)
