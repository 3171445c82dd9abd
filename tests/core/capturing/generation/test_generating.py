"""What a model writes, against transformers' own generation, one full pass after another, and torch's count of operations."""

import copy

import numpy as np
import pytest
import torch
import transformers as t
from torch.utils.flop_counter import FlopCounterMode

from core import Edits, Generation, capture, generate, load_model
from core.attention.shaping import Shaping
from core.capturing.calls.rows import permissions
from core.capturing.costs import operations
from core.capturing.generation.generating import Generating, joined, new_rows
from core.capturing.sampling import Sampling
from core.errors import InputError
from core.heads.likeness import weight_differences
from core.models.calls import Call
from core.models.inputs import all_inputs, cache_of, image_text_inputs
from tests.core.passes import assert_eager_weights, eager_layers, every_head
from tests.core.tiny_models import (
    GROUPED,
    HYBRIDS,
    LONG_ROPE,
    PHI3_BEYOND_ITS_FIRST_LENGTH,
    SEQ2SEQ,
    SHARED,
    T5,
    TINY,
    TWICE,
    eager,
    number_words,
    randomised,
    tiny,
    twin_of,
)
from tests.core.tiny_seeing import PLACES, SEEING, seeing
from tests.depth import sampled
from tests.refusals import refused

FRANCE = "The capital of France is"
NEW = 6
READERS = {"BERT", "RoBERTa", "DistilBERT", "ELECTRA", "ALBERT", "ModernBERT", "ViT"}
WRITERS = sorted(TINY.keys() - READERS)
BOTH = {"T5", "BART", "Marian"}


def numbers(count: int, seed: int = 0) -> str:
    return " ".join(map(str, np.random.default_rng(seed).integers(3, 64, count)))


def endless(name: str):
    """A tiny model that does not end its texts."""
    network = tiny(name)
    network.generation_config.eos_token_id = None
    return load_model(network, tokenizer=number_words())


@pytest.fixture(scope="module")
def gpt2():
    return endless("GPT-2")


def largest(one, other) -> float:
    return max(weight_differences(one, other, kind).max() for kind in one.kinds)


@pytest.mark.parametrize("name", sampled(WRITERS))
def test_rows_of_all_steps_are_those_of_one_pass_in_eager_code(name):
    model = endless(name)
    target = numbers(3, seed=1) if name in BOTH else None
    for text in (numbers(9), "5"):  # longer than the windows of 4 tokens that some of them have, and a single token
        written = generate(model, text, 7, temperature=1.5, seed=3, target=target)
        last = written.capture_of(-1)
        ids = {"input_ids": torch.tensor([last.input_ids])}
        if model.is_encoder_decoder:
            ids["decoder_input_ids"] = torch.tensor([last.target_ids])
        whole = eager(model.network, **ids)
        assert_eager_weights(last, whole, atol=2e-5)
        assert all(last.certificate(*at).holds for at in every_head(last))
        np.testing.assert_allclose(last.logits, whole.logits[0, -1].numpy(), atol=2e-5)
        assert largest(last, written.full_pass()) < 2e-5


def test_a_model_that_refuses_a_cache_reads_everything_anew():
    experts = {"num_experts": 2, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}
    config = t.SwitchTransformersConfig(**T5, **experts, decoder_start_token_id=0, eos_token_id=None)
    model = load_model(randomised(t.SwitchTransformersForConditionalGeneration(config)), tokenizer=number_words())
    written = generate(model, numbers(6), 4)
    assert [(step.cached, step.cache_bytes) for step in written.steps] == [(0, 0)] * 4
    assert largest(written.capture_of(-1), written.full_pass()) == 0
    assert len(written.capture_of(2).target_ids) == 3


@pytest.mark.parametrize("name", ["Mistral", "T5", "GPT-2"])
def test_each_step_is_the_pass_up_to_it(name):
    model = endless(name)
    written = generate(model, numbers(6), 5, target=numbers(2, seed=1) if name == "T5" else None)
    for number, step in enumerate(written.steps):
        taken = written.capture_of(number)
        assert len(taken.target_ids or taken.input_ids) == len(written.begun) + number == step.cached + step.computed
        given = {"target": taken.target_ids[1:]} if name == "T5" else {}
        assert largest(taken, capture(model, input_ids=taken.input_ids, **given)) < 2e-5
        assert np.argmax(taken.logits) == step.token_id == written.token_ids[number]


# Networks with rules of their own on what a step reads, beyond those of `tiny`: 16 tokens go beyond every length in them.
CHUNKS = {"attention_chunk_size": 4, "layer_types": ["chunked_attention", "full_attention"]}
NLLB = SEQ2SEQ | {"num_experts": 2, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
OWN_RULES = {
    "Phi-3 beyond its first length": PHI3_BEYOND_ITS_FIRST_LENGTH,
    "Llama 4": lambda: t.Llama4ForCausalLM(
        t.Llama4TextConfig(**GROUPED, **CHUNKS, intermediate_size_mlp=48, num_local_experts=2)
    ),
    "NLLB-MoE": lambda: t.NllbMoeForConditionalGeneration(t.NllbMoeConfig(**NLLB)),
    **{name: HYBRIDS[name] for name in ("Qwen3-Next", "LFM2", "Jamba", "Granite 4", "Bamba")},
    **{name: TINY[name] for name in ("Llama", "Mistral", "Gemma 2", "Gemma 3", "Qwen2", "GPT-2", "OPT", "gpt-oss")},
    **{name: TINY[name] for name in ("T5", "BART")},
    **TWICE,
}


def assert_written_as_by_transformers(network, new_tokens=16) -> Generation:
    """Its tokens, and what each step's query looks at in every head, are those of `generate` in transformers' eager code."""
    network.generation_config.eos_token_id = None
    ids = torch.tensor([[5, 9, 17, 33, 8, 21, 40, 11, 7, 13]])
    theirs = twin_of(network).generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=new_tokens, do_sample=False, num_beams=1,
        output_attentions=True, return_dict_in_generate=True,
    )  # fmt: skip
    written = generate(load_model(network), input_ids=ids[0].tolist(), new_tokens=new_tokens)
    assert list(written.token_ids) == theirs.sequences[0, -new_tokens:].tolist()
    for number in range(new_tokens):
        taken = written.capture_of(number)
        for layer, head, kind in every_head(taken):
            if kind != "encoder":
                own = [part for part in eager_layers(theirs, kind)[number] if part is not None]
                expected = own[layer][0, head, -1].numpy()  # of a window, the last keys alone
                weights = taken.trace(layer, head, kind).weights[-1]
                np.testing.assert_allclose(weights[len(weights) - len(expected) :], expected, rtol=0, atol=2e-5)
                assert not weights[: len(weights) - len(expected)].any()
    return written


@pytest.mark.parametrize("name", OWN_RULES)
def test_every_step_reads_what_transformers_reads(name):
    assert_written_as_by_transformers(randomised(OWN_RULES[name]()))


def test_a_cache_whose_first_layer_has_no_keys():
    """MiniMax returns more than attention weights, so that only its tokens are compared."""
    network = randomised(HYBRIDS["MiniMax"]())
    network.generation_config.eos_token_id = None
    ids = torch.tensor([[5, 9, 17, 33, 8]])
    theirs = twin_of(network).generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
    written = generate(load_model(network), input_ids=ids[0].tolist(), new_tokens=8)
    assert list(written.token_ids) == theirs[0, 5:].tolist()
    assert [step.cached for step in written.steps] == [0, *range(5, 12)]


def test_what_is_read_anew_in_the_middle_of_a_text():
    """Phi-3 leaves its cache once; every other step is what one pass over the text so far is."""
    written = assert_written_as_by_transformers(randomised(PHI3_BEYOND_ITS_FIRST_LENGTH()))
    assert [step.cached for step in written.steps] == [0, *range(10, 16), 0, *range(17, 25)]
    assert written.runs == (range(7), range(7, 16))
    last, before = written.capture_of(15), written.capture_of(6)
    assert largest(last, written.full_pass()) < 2e-5
    assert largest(before, capture(written.model, input_ids=before.input_ids)) < 2e-5
    apart = np.abs(last.trace(0, 0).weights[:16, :16] - before.trace(0, 0).weights).max()
    for layer, head in np.ndindex(2, 4):
        rows = [written.capture_of(step).trace(layer, head).weights[-1] for step in range(16)]
        for row, of_step in zip(rows, written.step_weights(layer, head), strict=True):
            np.testing.assert_allclose(of_step[: len(row)], row, rtol=0, atol=1e-6)
            assert np.isnan(of_step[len(row) :]).all()
    assert apart > 0.01, "with other rotary positions the rows of the first steps would be other ones"


def test_a_network_that_forgets_its_text_is_refused():
    """Phi-4 multimodal leaves its cache as Phi-3 does, but reads only the newest token anew (transformers 5.23)."""
    small = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "nemo_conv_channels": 16}
    parts = {"vision_config": small | {"num_hidden_layers": 2}, "audio_config": small | {"num_blocks": 1}}
    network = randomised(t.Phi4MultimodalForCausalLM(t.Phi4MultimodalConfig(**SHARED, **LONG_ROPE, **parts)))
    network.generation_config.eos_token_id = None
    model = load_model(network)
    assert len(generate(model, input_ids=range(3, 13), new_tokens=7).token_ids) == 7
    with refused("model", "would read 1 of the 17 tokens"):
        generate(model, input_ids=range(3, 13), new_tokens=8)


@pytest.mark.parametrize("settings", [{"use_cache": False}, {"cache_implementation": "static"}])
def test_settings_of_the_cache_change_no_number(settings):
    network = tiny("Mistral")
    network.generation_config.update(**settings)
    written = assert_written_as_by_transformers(network)
    assert {step.cached == 0 for step in written.steps[1:]} == {"use_cache" in settings}


def test_a_cache_that_rounds_is_refused(gpt2):
    settings = gpt2.network.generation_config
    settings.cache_implementation = "quantized"
    try:
        with refused("model", "quantised cache"):
            generate(gpt2, numbers(3))
    finally:
        settings.cache_implementation = None


def test_as_transformers_generates(smollm):
    inputs = all_inputs(smollm, FRANCE)
    theirs = twin_of(smollm.network).generate(**inputs, do_sample=False, max_new_tokens=NEW, pad_token_id=0)
    written = generate(smollm, FRANCE, NEW)
    assert [*written.input_ids, *written.token_ids] == theirs[0].tolist()
    assert written.text.startswith(" Paris")
    assert written.ended is None


@pytest.mark.parametrize("name", sorted(BOTH))
def test_encoder_decoders_as_transformers_generates(name):
    model = endless(name)
    settings = model.network.generation_config
    settings.bad_words_ids, settings.suppress_tokens = None, None
    ids = all_inputs(model, numbers(7))["input_ids"]
    free = generate(model, input_ids=ids[0].tolist(), new_tokens=NEW)
    settings.suppress_tokens = [free.token_ids[0]]
    settings.bad_words_ids = [[free.token_ids[1]]]
    for forced in (None, 9):
        settings.forced_bos_token_id = forced
        theirs = model.network.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=1, max_new_tokens=NEW, min_length=0
        )
        assert list(generate(model, input_ids=ids[0].tolist(), new_tokens=NEW).token_ids) == theirs[0, 1:].tolist()


def test_sampled_by_seed_and_step(gpt2):
    hot = {"new_tokens": 12, "temperature": 2.0}
    one, same, other = (generate(gpt2, numbers(5), seed=seed, **hot).token_ids for seed in (1, 1, 2))
    assert one == same != other
    assert generate(gpt2, numbers(5), seed=1, new_tokens=5, temperature=2.0).token_ids == one[:5]
    assert one != generate(gpt2, numbers(5), 12).token_ids


def test_a_message_is_answered(smollm):
    written = generate(smollm, "What is 2 + 2?", 12, chat=True)
    said = [{"role": "user", "content": "What is 2 + 2?"}]
    expected = smollm.tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
    assert written.input_ids == tuple(expected)
    assert "4" in written.text


def test_it_ends_where_the_model_ends_its_text(gpt2):
    whole = generate(gpt2, numbers(9), NEW).token_ids
    settings = gpt2.network.generation_config
    try:
        for end in (whole[0], [63, whole[0]]):
            settings.eos_token_id = end
            written = generate(gpt2, numbers(9), NEW)
            assert (written.token_ids, written.ended) == (whole[:1], "end")
    finally:
        settings.eos_token_id = None


def test_it_ends_where_the_model_can_read_no_further(gpt2):
    assert gpt2.max_tokens == 64
    for tokens, expected in ((60, 5), (63, 2), (64, 1)):
        written = generate(gpt2, numbers(tokens))
        assert (len(written.token_ids), written.ended) == (expected, "limit")
    assert generate(gpt2, numbers(60), 3).ended is None


def test_what_is_there_stays_when_a_pass_is_stopped(gpt2):
    told = []
    assert len(generate(gpt2, numbers(5), 4, on_progress=told.append).token_ids) == 4
    assert told == [1, 2, 3, 4]

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    inputs = all_inputs(gpt2, numbers(5))
    writing, undisturbed = Generating(gpt2, inputs), Generating(gpt2, inputs)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            writing.go_on(stop)
        assert writing.go_on()
        undisturbed.go_on()
    one, other = writing.so_far(), undisturbed.so_far()
    assert one.token_ids == other.token_ids
    assert largest(one.capture_of(-1), other.capture_of(-1)) < 2e-5
    assert [step.cached for step in one.steps] == [0, 0, 0]


@pytest.mark.parametrize("replaced", [{}, {2: "7"}])
def test_every_pass_is_edited_and_a_replaced_token_stays_replaced(gpt2, replaced):
    edits = Edits(mute_heads={(1, 3)}, scale_by={0: 0.5}, block_keys={(1, 2): {1}}, replace_tokens=replaced)
    ids = list(capture(gpt2, numbers(5), edits=edits).input_ids)
    assert (ids[2] == 7) == bool(replaced)
    for _ in range(NEW):
        ids.append(int(capture(gpt2, input_ids=ids, edits=edits.without_tokens()).logits.argmax()))
    written = generate(gpt2, numbers(5), NEW, edits=edits)
    assert list(written.token_ids) == ids[5:]
    assert all(step.cached == step.cache_bytes == 0 for step in written.steps)
    assert written.token_ids != generate(gpt2, numbers(5), NEW).token_ids
    expected = capture(gpt2, input_ids=ids[:-2], edits=edits.without_tokens())
    assert largest(written.capture_of(NEW - 2), expected) == 0


def test_a_decoder_writes_on_while_the_encoder_reads_the_same():
    t5, text, grown = endless("T5"), numbers(8), numbers(3, seed=1)
    edits = Edits(mute_heads={0}, scale_by=3.0)
    for token in generate(t5, text, NEW, target=grown, edits=edits).token_ids:
        assert token == int(capture(t5, text, target=grown, edits=edits).logits.argmax())
        grown += f" {token}"


def test_the_cache_holds_keys_and_values_of_every_layer(smollm):
    written = generate(smollm, FRANCE, 3)
    config = smollm.network.config
    number = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
    tokens = len(written.input_ids)
    assert [step.cache_bytes for step in written.steps] == [number * (tokens + more) for more in range(3)]
    assert [(step.computed, step.cached) for step in written.steps] == [(tokens, 0), (1, tokens), (1, tokens + 1)]
    both_ways = operations(smollm, tokens + 1, cached=tokens), operations(smollm, tokens + 1)
    assert written.multiplications(1) == tuple(sum(each) // 2 for each in both_ways)


@pytest.mark.parametrize("name", ["Llama", "BART", "T5"])
def test_multiplications_are_half_the_operations_that_torch_counts_in_eager_code(name):
    model = endless(name)
    target, tokens = ({"target": range(30, 36)}, {"target_tokens": 7}) if name in BOTH else ({}, {})
    inputs = all_inputs(model, input_ids=range(3, 23), **target)
    network = twin_of(model.network)
    grows = list(inputs)[-1]
    with torch.inference_mode():
        begun = network(**inputs | {grows: inputs[grows][:, :-1]}, use_cache=True)
        more = {"encoder_outputs": (begun.encoder_last_hidden_state,)} if model.is_encoder_decoder else {}
        with FlopCounterMode(display=False) as step:
            network(**{grows: inputs[grows][:, -1:]}, **cache_of(begun), use_cache=True, **more)
    cached = inputs[grows].shape[1] - 1
    assert sum(operations(model, 20, **tokens, cached=cached)) == pytest.approx(step.get_total_flops(), rel=0.05)


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        *(({"temperature": number}, "temperature", "") for number in (-0.1, float("nan"))),
        ({"top_k": 0}, "top_k", ""),
        *(({"top_p": number}, "top_p", "") for number in (0.0, 1.1)),
        *(({"seed": number}, "seed", "") for number in (-1, 2**32)),
        ({"new_tokens": 0}, "new_tokens", ""),
        ({"chat": True}, "chat", "no chat template"),
        ({"edits": Edits(patch_heads={(0, 1)}, patch_from=numbers(4))}, "patch_from", "as many tokens"),
    ],
)
def test_what_cannot_be_asked(gpt2, asked, field, words):
    with refused(field, words):
        generate(gpt2, numbers(3), **asked)


def test_what_cannot_be_written_and_steps_that_are_not_there(gpt2, minilm):
    with refused("model", "predicts no next token"):
        generate(minilm, numbers(3))
    written = generate(gpt2, numbers(4), 2)
    for step in (2, -3):
        with refused("step", "from 0 to 1"):
            written.capture_of(step)


def test_candidates_are_the_most_probable(smollm):
    written = generate(smollm, FRANCE, 1, temperature=3.0, top_k=4, seed=5)
    candidates = written.candidates(0, 6)
    assert [(one.token, one.probability) for one in candidates[:6]] == [
        (token, pytest.approx(share, abs=1e-6)) for token, share in capture(smollm, FRANCE).next_tokens(6)
    ]
    assert [one.chance > 0 for one in candidates[:6]] == [True] * 4 + [False] * 2
    assert sum(one.chance for one in candidates) == pytest.approx(1)
    assert written.token_ids[0] in [one.token_id for one in candidates[:4]]
    assert Sampling().draw(written.steps[0].logits, 0) == candidates[0].token_id


@pytest.mark.parametrize("name", SEEING)
def test_what_is_written_about_an_image_is_what_transformers_writes(name):
    """Another text and another image are read by the same network in between, which remembers the positions of the latest."""
    model, expected = seeing(name), []
    images = [np.random.default_rng(seed).integers(0, 256, (60, 40 + 60 * seed, 3), dtype=np.uint8) for seed in (0, 1)]
    options = {"max_new_tokens": 6, "do_sample": False, "suppress_tokens": [model.network.config.image_token_id]}
    for image in images:
        inputs = model.processor(images=image, text=[PLACES[name]], return_tensors="pt")
        inputs.pop("labels", None)
        theirs = copy.deepcopy(model.network).generate(**inputs, **options)
        expected.append(theirs[0, inputs["input_ids"].shape[1] :].tolist())
    begun = [image_text_inputs(model, PLACES[name], image) for image in images]
    both = [Generating(model, inputs, tiles=tiles) for inputs, tiles in begun]
    for _ in range(6):
        for one in both:
            one.go_on()
    assert [list(one.so_far().token_ids) for one in both] == expected
    # Each step is a pass with the image, as one without a cache is.
    written, plain = both[1].so_far(), capture(model, PLACES[name], image=images[1])
    whole, steps = written.full_pass(), written.capture_of(-1)
    assert largest(steps, whole) < 2e-5
    np.testing.assert_array_equal(steps.image, images[1])
    for kind in ("self", "vision"):
        for one, other in zip(steps.image_grids(kind), plain.image_grids(kind), strict=True):
            np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_allclose(written.capture_of(0).logits, plain.logits, rtol=0, atol=1e-5)
    with pytest.raises(InputError, match="texts alone"):
        written.multiplications(0)
    edits = Edits(mute_heads={(0, 0)})
    edited = generate(model, PLACES[name], 3, image=images[1], edits=edits)
    grown = edited.full_pass()
    np.testing.assert_allclose(grown.logits, edited.steps[-1].logits, rtol=0, atol=1e-5)
    assert not grown.trace(0, 0).output.any()


def call(queries: int, keys: int, *, causal: bool) -> Call:
    query, key = torch.zeros(1, 2, queries, 4), torch.zeros(1, 1, keys, 4)
    output = torch.zeros(1, queries, 2, 4)
    return Call(torch.nn.Identity(), query, key, key, Shaping(1.0), output, causal)


def test_a_cache_that_holds_three_keys_and_hands_over_no_mask():
    first = call(2, 2, causal=True)
    later = [call(1, min(3, tokens), causal=False) for tokens in (3, 4, 5)]
    parts = [new_rows(first, 2), *(new_rows(one, 1) for one in later)]
    whole = joined(parts, {})
    assert whole.query.shape[2] == whole.key.shape[2] == whole.output.shape[1] == 5
    allowed, bias = permissions(whole, slice(0, 2), range(5))
    place = torch.arange(5)
    back = place[:, None] - place
    assert bias is None
    assert torch.equal(allowed[0], (back >= 0) & (back < 3))


def test_a_text_that_is_read_both_ways_stays_so():
    whole = joined([new_rows(call(2, 2, causal=False), 2), new_rows(call(1, 3, causal=False), 1)], {})
    assert permissions(whole, slice(0, 2), range(3))[0][0].tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
