"""Estimates against what a capture really keeps, what torch really allocates and the operations that torch really counts."""

import numpy as np
import pytest
import torch
import transformers
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from core import capture, load_model
from core.capturing.estimates import (
    Estimate,
    Run,
    Speeds,
    component_bytes,
    estimate,
    image_bytes,
    in_words,
    kept_bytes,
    measuring_operations,
    operations,
    passing_bytes,
    reading_operations,
    try_out,
)
from core.errors import InputError
from core.models.inputs import image_text_inputs, run
from tests.core.tiny_models import TINY, tiny
from tests.core.tiny_seeing import PLACES, SEEING, seeing

TEXT_MODELS = sorted(set(TINY) - {"ViT"})


def some_ids(model, tokens):
    return np.random.default_rng(0).integers(3, model.network.config.get_text_config().vocab_size, size=tokens)


def really_kept(taken):
    """The bytes behind all tensors of a capture, memory that several of them share counted once."""
    of_layers = [leaf for leaf in tree_leaves(taken.begun.returned) if isinstance(leaf, torch.Tensor)]
    tensors = of_layers + [
        tensor
        for calls in taken.calls.values()
        for call in calls
        for tensor in (call.query, call.key, call.value, call.output, call.mask, call.bias)
        if tensor is not None
    ]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())


def allocated(action):
    """Bytes allocated after each step of what runs, as torch's allocator reports them; the last are those that it keeps."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        kept = action()
    sizes = [event.nbytes() for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    del kept
    return np.cumsum(sizes)


def peak(action):
    """Bytes allocated at the most while something runs."""
    return allocated(action).max()


# --- memory


@pytest.mark.parametrize("tokens", [5, 300])
@pytest.mark.parametrize("name", ["minilm", "smollm"])
def test_real_models_keep_what_was_estimated(name, tokens, request):
    model = request.getfixturevalue(name)
    assert kept_bytes(model, tokens) == really_kept(capture(model, input_ids=some_ids(model, tokens)))


@pytest.mark.parametrize("tokens", [3, 40])
@pytest.mark.parametrize("name", TEXT_MODELS)
def test_every_architecture_keeps_what_was_estimated(name, tokens):
    model = load_model(tiny(name))
    kept = really_kept(capture(model, input_ids=some_ids(model, tokens)))
    assert kept_bytes(model, tokens) == pytest.approx(kept, rel=0.01)


@pytest.mark.parametrize("name", SEEING)
def test_an_image_keeps_what_was_estimated(name):
    model = seeing(name)
    image = np.random.default_rng(0).integers(0, 256, (60, 100, 3), dtype=np.uint8)
    inputs, _ = image_text_inputs(model, PLACES[name], image)
    kept, passing = image_bytes(model, inputs)
    taken = capture(model, PLACES[name], image=image)
    assert kept == really_kept(taken)
    assert 0.5 < peak(lambda: capture(model, PLACES[name], image=image)) / (kept + passing) < 1.5


def test_a_target_is_kept_as_well(minilm):
    network = tiny("T5")
    network.resize_token_embeddings(len(minilm.tokenizer))
    model = load_model(network, tokenizer=minilm.tokenizer)
    taken = capture(model, input_ids=some_ids(model, 40), target="the cat sat on the mat")
    written = len(taken.target_ids)
    assert written > 5
    assert kept_bytes(model, 40, target_tokens=written) == really_kept(taken)


def test_heads_may_be_wider_than_their_share_of_the_model():
    config = TINY["Llama"]().config
    config.head_dim = 24
    model = load_model(transformers.LlamaForCausalLM(config).eval())
    assert kept_bytes(model, 40) == really_kept(capture(model, input_ids=some_ids(model, 40)))


def test_half_precision_keeps_half():
    network = tiny("Llama")
    full = kept_bytes(load_model(network), 40)
    model = load_model(network.to(torch.bfloat16))
    assert kept_bytes(model, 40) == full // 2 == really_kept(capture(model, input_ids=some_ids(model, 40)))


@pytest.mark.parametrize("name", ["BERT", "Llama", "OPT", "Gemma 3", "gpt-oss", "T5", "BART"])
def test_components_keep_what_was_estimated(name):
    """All that torch has allocated for the pass and not freed: nothing else stays, such as hidden layers of MLPs."""
    model = load_model(tiny(name))
    target = {"target": [7] * 29} if model.is_encoder_decoder else {}
    given = {"input_ids": some_ids(model, 60), "components": True} | target
    taken = capture(model, **given)
    kept = allocated(lambda: capture(model, **given))[-1]
    written = 30 if target else 1
    estimated = sum(count(model, 60, target_tokens=written) for count in (kept_bytes, component_bytes))
    assert estimated == pytest.approx(kept, rel=0.1)  # tables of rotation and masks, too
    assert (
        taken.nbytes == sum(call.nbytes for calls in taken.calls.values() for call in calls) + taken.components.nbytes
    )


@pytest.mark.parametrize("name", ["minilm", "smollm"])
def test_the_peak_is_about_what_was_estimated(name, request):
    model = request.getfixturevalue(name)
    ids = some_ids(model, 400)
    capture(model, input_ids=ids)
    above = peak(lambda: capture(model, input_ids=ids)) - kept_bytes(model, 400)
    assert 0.95 * above < passing_bytes(model, 400) < 1.6 * above


def test_soft_caps_need_the_scores_of_all_heads():
    model = load_model(tiny("Gemma 2"))
    ids = some_ids(model, 60)
    above = peak(lambda: capture(model, input_ids=ids)) - kept_bytes(model, 60)
    assert 0.9 * above < passing_bytes(model, 60) < 1.6 * above


def test_scores_of_the_next_token_are_those_of_one_position(smollm):
    """And twice: as the network gives them, and as the capture keeps them."""
    scores = 2 * 49152 * 4
    assert scores < passing_bytes(smollm, 1) < scores + 30_000


# --- operations


def counted(model, tokens):
    with FlopCounterMode(display=False) as counter:
        run(model, {"input_ids": torch.from_numpy(some_ids(model, tokens))[None]})
    by_name = {str(operation): count for operation, count in counter.get_flop_counts()["Global"].items()}
    between_tokens = sum(count for name, count in by_name.items() if "attention" in name or "bmm" in name)
    return sum(by_name.values()) - between_tokens


@pytest.mark.parametrize("name", ["minilm", "smollm"])
def test_operations_with_parameters_are_those_that_torch_counts(name, request):
    """Torch counts matrix products; biases, norms and MiniLM's pooler (one position) are the difference."""
    model = request.getfixturevalue(name)
    assert operations(model, 64)[0] == pytest.approx(counted(model, 64), rel=0.02)


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BART", "T5"])
def test_operations_of_other_architectures(name):
    model = load_model(tiny(name))
    if model.is_encoder_decoder:
        start = torch.tensor([[model.network.config.decoder_start_token_id]])
        with FlopCounterMode(display=False) as counter:
            run(model, {"input_ids": torch.arange(3, 43)[None], "decoder_input_ids": start})
        by_name = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
        real = sum(count for op, count in by_name.items() if "attention" not in op and "bmm" not in op)
    else:
        real = counted(model, 40)
    assert operations(model, 40)[0] == pytest.approx(real, rel=0.05)


def test_operations_between_tokens_are_those_of_the_formula(minilm, smollm):
    """4 × layers × heads × d_head × pairs: all pairs in both directions, half of them and the diagonal in one."""
    assert operations(minilm, 100)[1] == 4 * 6 * 12 * 32 * 100 * 100
    assert operations(smollm, 100)[1] == 4 * 30 * 9 * 64 * (100 * 101 // 2)
    windowed = load_model(tiny("Mistral"))
    assert operations(windowed, 4)[1] == 4 * 2 * 4 * 8 * (4 * 5 // 2)
    assert operations(windowed, 40)[1] == 4 * 2 * 4 * 8 * 40 * 40  # with a mask, torch goes through all pairs
    both = load_model(tiny("BART"))
    assert operations(both, 40, target_tokens=7)[1] == 4 * 4 * 8 * 2 * (40 * 40 + 7 * 8 // 2 + 7 * 40)


def test_twice_the_text_is_twice_the_products_and_four_times_the_pairs(minilm):
    once, twice = operations(minilm, 200), operations(minilm, 400)
    assert twice[0] == 2 * once[0]
    assert twice[1] == 4 * once[1]


# --- speeds

# Seconds of processor time that reading and measuring took on one core, in this order: (tokens, reading, measuring).
TIMED = {
    "minilm": (
        *((16, 0.015, 0.027), (16, 0.011, 0.006), (32, 0.015, 0.006), (64, 0.024, 0.008), (128, 0.041, 0.015)),
        *((256, 0.081, 0.051), (512, 0.175, 0.130)),
    ),
    "smollm": (
        *((16, 0.178, 0.063), (16, 0.100, 0.026), (32, 0.138, 0.026), (64, 0.216, 0.040), (128, 0.456, 0.104)),
        *((256, 0.848, 0.206), (512, 1.758, 0.469), (1024, 3.460, 1.594), (2048, 8.551, 5.565), (4096, 20.072, 21.428)),
    ),
}


def timed(model, name):
    """Runs of reading and of measuring, one after the other, with their numbers of tokens."""
    for tokens, reading, measuring in TIMED[name]:
        yield tokens, Run("a", "reading", reading_operations(model, tokens), reading)
        yield tokens, Run("a", "measuring", measuring_operations(model, tokens), measuring)


@pytest.mark.parametrize("known", [16, 64, 256])
@pytest.mark.parametrize("work", ["reading", "measuring"])
@pytest.mark.parametrize("name", ["minilm", "smollm"])
def test_one_length_foretells_every_longer_one(name, work, known, request):
    """Within a factor of 2, up to 256 times the length."""
    speeds, ratios = Speeds(), []
    for tokens, done in timed(request.getfixturevalue(name), name):
        if done.work == work and tokens == known:
            speeds.learn(done)
        elif done.work == work and tokens > known:
            ratios.append(speeds.seconds("a", work, done.operations)[0] / done.seconds)
    assert ratios
    assert min(ratios) > 0.5
    assert max(ratios) < 2


@pytest.mark.parametrize("name", ["minilm", "smollm"])
def test_measuring_is_foreseen_from_reading_alone(name, request):
    """Less well, within a factor of 3: the latest run before it is all that there is to go by."""
    model = request.getfixturevalue(name)
    speeds = Speeds()
    for tokens, done in timed(model, name):
        if done.work == "reading":
            speeds.learn(done)
        elif tokens >= 128:
            seconds, known = speeds.seconds("a", "measuring", done.operations)
            assert not known
            assert 1 / 3 < seconds / done.seconds < 3


def runs(*rates, operations=1000, work="reading", model="a"):
    speeds = Speeds()
    for rate in rates:
        speeds.learn(Run(model, work, operations, rate * operations))
    return speeds


def test_a_trial_that_was_too_slow_is_soon_forgotten():
    speeds = runs(15.0)
    assert speeds.seconds("a", "reading", 100_000) == (pytest.approx(1.5e6), False)
    speeds.learn(Run("a", "reading", 4000, 4000.0))
    assert speeds.seconds("a", "reading", 4000) == (pytest.approx(4000), True)
    assert speeds.seconds("a", "reading", 100_000) == (pytest.approx(1e5), False)


def test_one_hiccup_changes_nothing_and_a_machine_that_stays_busy_does():
    assert runs(1.0, 1.0, 1.0, 15.0).seconds("a", "reading", 1000)[0] == pytest.approx(1000)
    assert runs(1.0, 1.0, 1.0, 4.0, 4.0, 4.0).seconds("a", "reading", 1000)[0] == pytest.approx(4000)


def test_what_ran_long_ago_is_forgotten():
    assert runs(9.0, *[1.0] * 8).latest("a", "reading") == runs(*[1.0] * 8).latest("a", "reading")


def test_runs_of_the_same_size_tell_most():
    speeds = runs(1.0, operations=1000)
    for _ in range(5):
        speeds.learn(Run("a", "reading", 10, 30.0))
    assert speeds.seconds("a", "reading", 1000) == (pytest.approx(1000), True)
    assert speeds.seconds("a", "reading", 10) == (pytest.approx(30), True)


def test_models_and_kinds_of_work_have_speeds_of_their_own():
    speeds = runs(2.0)
    assert speeds.seconds("a", "measuring", 10) == (20.0, False)  # until something has been measured
    speeds.learn(Run("a", "measuring", 10, 70.0))
    assert speeds.seconds("a", "measuring", 10) == (70.0, True)
    assert speeds.seconds("a", "reading", 1000) == (2000.0, True)
    assert speeds.seconds("a", "measuring", 1000) == (
        2000.0,
        False,
    )  # so little is known of it that reading tells better
    unknown, known = speeds.seconds("b", "reading", 1000)
    assert 0 < unknown < 1e-6
    assert not known


# --- estimates


def learned(model, reading, measuring):
    """Speeds of a machine that takes so many seconds for an operation, on texts of 100 tokens."""
    speeds = Speeds()
    for work, count, rate in (
        ("reading", reading_operations(model, 100), reading),
        ("measuring", measuring_operations(model, 100), measuring),
    ):
        speeds.learn(Run(model.name, work, count, count * rate))
    return speeds


def test_an_estimate_is_of_the_work_that_was_asked_for(smollm):
    speeds = learned(smollm, 1e-11, 3e-11)
    seen = estimate(smollm, 200, speeds)
    assert seen.seconds == seen.at_least == pytest.approx(reading_operations(smollm, 200) * 1e-11)
    assert seen.memory_bytes == seen.kept_bytes + seen.passing_bytes
    assert seen.kept_bytes == kept_bytes(smollm, 200)
    measured = estimate(smollm, 200, speeds, measuring=True)
    assert measured.seconds - seen.seconds == pytest.approx(measuring_operations(smollm, 200) * 3e-11)
    assert measured.kept_bytes == seen.kept_bytes


def test_an_estimate_that_may_be_much_too_long_says_so(smollm):
    seen = estimate(smollm, 8000, learned(smollm, 1e-11, 1e-11))
    assert not seen.known
    assert seen.at_least == pytest.approx(seen.seconds / 10)


def test_a_model_of_which_nothing_is_known_is_tried_out_once_and_only_before_long_work():
    model, speeds = load_model(tiny("Mistral")), Speeds()
    assert estimate(model, 10, speeds).seconds > 0
    assert not speeds.latest(model.name, "reading")
    long = 10**8
    estimate(model, long, speeds)
    (trial,) = speeds.latest(model.name, "reading")
    estimate(model, long, speeds)
    assert speeds.latest(model.name, "reading") == [trial]


class Clock:
    """Goes on by so many seconds whenever somebody looks at it."""

    def __init__(self, step):
        self.step, self.looks = step, 0

    def __call__(self):
        self.looks += 1
        return self.looks * self.step


@pytest.mark.parametrize(("step", "layers"), [(0.5, 1), (0.1, 3), (0.001, 60)])
def test_a_trial_ends_in_time_and_stands_for_a_whole_pass(smollm, step, layers):
    """A layer takes a step: 30 of them a pass, two passes if there is time."""
    clock = Clock(step)
    trial = try_out(smollm, clock)
    assert clock.looks == pytest.approx(1 + layers, abs=1)  # 3 × 0.1 is a little more or less than 0.3
    assert trial.seconds == pytest.approx(30 * step)
    assert (trial.model, trial.work, trial.operations) == (smollm.name, "reading", reading_operations(smollm, 64))


@pytest.mark.parametrize("name", ["T5", "GPT-2"])
def test_other_architectures_are_tried_out(name):
    assert try_out(load_model(tiny(name))).seconds > 0


def test_no_tokens_and_no_texts_are_refused(smollm):
    with pytest.raises(InputError, match="0 tokens cannot be read"):
        estimate(smollm, 0, Speeds())
    with pytest.raises(InputError, match="reads images"):
        estimate(load_model(tiny("ViT")), 10, Speeds())


@pytest.mark.parametrize(
    ("seconds", "memory", "words"),
    [
        (0.01, 3_000, "about 0.1 s and 1 MB"),
        (0.74, 39_600_000, "about 0.7 s and 40 MB"),
        (0.96, 999_600_000, "about 1 s and 1.0 GB"),
        (9.4, 1_000_000_000, "about 9 s and 1.0 GB"),
        (18.7, 1_260_000_000, "about 20 s and 1.3 GB"),
        (59, 1, "about 1 minute and 1 MB"),
        (100, 1, "about 2 minutes and 1 MB"),
        (3000, 25e9, "about 50 minutes and 25.0 GB"),
    ],
)
def test_estimates_in_words(seconds, memory, words):
    assert in_words(Estimate(seconds, known=True, kept_bytes=int(memory), passing_bytes=0)) == words
