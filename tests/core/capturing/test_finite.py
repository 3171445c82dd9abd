"""NaN and infinity: whatever runs a model over a text or an image refuses them, and says where they come first."""

from functools import partial

import numpy as np
import pytest
import torch
import transformers as t

from core import Edits, attention_weights, capture, generate, load_model, logit_lens, open_capture, probe_heads
from core.capturing.answers import pass_with_losses
from core.corpus.settings import RunSettings
from core.corpus.steps import heads_of, measure
from core.corpus.tally import Tally
from core.heads.effects import head_effects, patch_effects
from core.models.passages import Location, Passage
from tests.core.tiny_models import WEIGHTS_ONLY, number_words, randomised, tiny
from tests.core.tiny_seeing import PLACES, SEEING
from tests.refusals import refused

IDS = np.arange(3, 15)
IMAGE = np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8)


def planted(network: t.PreTrainedModel, name: str, number: float = torch.nan) -> t.PreTrainedModel:
    """With this number in a parameter, once in each row."""
    network.get_parameter(name).data[..., 0] = number
    return network


def refuses(run, place: str, field: str = "model") -> str:
    with refused(field, "gives NaN or infinity") as caught:
        run()
    assert place in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
@pytest.mark.parametrize(
    ("model", "parameter", "place"),
    [
        ("Llama", "model.embed_tokens.weight", "first in model.embed_tokens"),
        ("Llama", "model.layers.0.input_layernorm.weight", "first in layer 0 (model.layers.0.input_layernorm, whose"),
        ("Llama", "model.layers.1.self_attn.v_proj.weight", "first in layer 1 (model.layers.1.self_attn.v_proj, whose"),
        ("Llama", "model.norm.weight", "first in model.norm, whose weights hold such numbers"),
        ("Llama", "lm_head.weight", "first in lm_head, whose weights hold such numbers"),
        ("gpt-oss", "model.layers.1.self_attn.sinks", "first in layer 1 (model.layers.1.self_attn, whose"),
        ("T5", "decoder.block.0.layer.1.EncDecAttention.k.weight", "first in layer 0 (decoder.block.0."),
        # The second of its two groups of layers, and so the third of four layers.
        ("ALBERT", "encoder.albert_layer_groups.1.albert_layers.0.ffn.weight", "first in layer 2 (encoder.albert"),
        ("BERT", "encoder.layer.1.output.dense.weight", "first in layer 1 (encoder.layer.1.output.dense, whose"),
        ("ViT", "layers.1.mlp.fc2.weight", "first in layer 1 (layers.1.mlp.fc2, whose"),
    ],
)
def test_where_it_comes_first_is_said(model, parameter, place, number):
    model = load_model(planted(tiny(model), parameter, number))
    given = {"image": IMAGE} if model.reads_images else {"input_ids": IDS}
    refuses(lambda: capture(model, **given), place)
    refuses(lambda: capture(model, **given, edits=Edits(mute_heads={(1, 2)})), place)


WAYS = {
    "capture": lambda model: capture(model, "5 9 7"),
    "components": lambda model: capture(model, "5 9 7", components=True),
    "a path cut": lambda model: capture(model, "5 9 7", edits=Edits(cut_paths={("mlp 0", (1, 0, "key")): "zero"})),
    "mean of another text": lambda model: capture(model, "5 8 7", edits=Edits(mean_heads={(0, 1)}, mean_over="9 9")),
    "generation": lambda model: generate(model, "5 9 7", 3),
    "losses": lambda model: pass_with_losses(model, [5, 9, 7, 3]),
    "effects": lambda model: head_effects(model, "5 9 7"),
    "patching": lambda model: patch_effects(model, "5 8 7", "5 9 7"),
    "probe": lambda model: probe_heads(model, length=20, seeds=[0]),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_refuses_it(way):
    """The second token of each text has no finite vector; another text is read as before."""
    network = tiny("Llama")
    network.model.embed_tokens.weight.data[9:40] = torch.nan
    refuses(lambda: WAYS[way](load_model(network, tokenizer=number_words())), "first in model.embed_tokens")
    assert np.isfinite(capture(load_model(network), input_ids=[5, 8, 7]).logits).all()


def test_weights_alone_a_corpus_and_an_image_with_a_text():
    model = load_model(planted(randomised(WEIGHTS_ONLY["GPT-J"]()), "transformer.h.1.mlp.fc_out.weight"))
    refuses(lambda: attention_weights(model, input_ids=IDS), "first in layer 1 (transformer.h.1.mlp.fc_out, whose")
    network, processor = SEEING["LLaVA"]()
    tower = "model.vision_tower.encoder.layers.1.mlp.fc2"
    looking = load_model(planted(randomised(network), f"{tower}.weight"), processor=processor)
    refuses(lambda: capture(looking, PLACES["LLaVA"], image=IMAGE), f"first in layer 1 ({tower}")

    network = tiny("BERT")
    network.embeddings.word_embeddings.weight.data[9] = torch.nan
    model = load_model(network, tokenizer=number_words())
    settings = RunSettings(passage_tokens=16)
    tally = Tally(settings, heads_of(settings, model))
    texts = ("5 7 3", "5 9 3", "4 4 8")
    measure([Passage(Location("a.txt", row), 0, text) for row, text in enumerate(texts)], model, tally)
    assert [problem.place.row for problem in tally.problems] == [1]
    assert "gives NaN or infinity, first in embeddings.word_embeddings" in tally.problems[0].why
    assert np.isfinite(tally.totals.values).all()
    assert tally.tokens_read == 6


def test_what_float16_cannot_hold_bfloat16_can():
    network = tiny("Llama")
    network.model.layers[1].mlp.down_proj.weight.data.mul_(1e5).clamp_(-6e4, 6e4)
    place = "in float16, first in layer 1 (model.layers.1.mlp.down_proj): choose bfloat16, which holds larger numbers"
    assert np.isfinite(capture(load_model(network.bfloat16()), input_ids=IDS).logits).all()
    refuses(lambda: capture(load_model(network.half()), input_ids=IDS), place, field="dtype")


@pytest.mark.parametrize("softmax", ["softmax", "hardmax", "sigmoid"])
def test_a_change_that_makes_it(softmax):
    model = load_model(tiny("Llama"))
    plain, edits = capture(model, input_ids=IDS), Edits(scale_by={1: 1e300}, softmax={1: softmax})
    for known in ([], [plain]):
        changed = partial(capture, model, input_ids=IDS, edits=edits, known=known)
        said = refuses(changed, "first in layer 1 (", "edits")
        assert said.startswith("With these changes LlamaForCausalLM")
        assert "switch one off, or change less" in said


def test_what_is_not_used_is_no_reason():
    for name, parameter in (
        ("BERT", "pooler.dense"),
        ("BERT", "embeddings.token_type_embeddings"),
        ("ViT", "pooler.dense"),
    ):
        network = tiny(name)
        network.get_parameter(f"{parameter}.weight").data[-1] = torch.nan
        taken = capture(load_model(network), **({"image": IMAGE} if name == "ViT" else {"input_ids": IDS}))
        assert np.isfinite(taken.vectors).all()


def test_tokens_that_never_come_next_are_no_reason(tmp_path):
    """As in models whose vocabulary is padded, or who write no images."""
    network = tiny("Llama")
    network.lm_head.bias = torch.nn.Parameter(torch.zeros(64))
    network.lm_head.bias.data[60:] = torch.tensor([-torch.inf, torch.finfo(torch.float32).min, -torch.inf, -torch.inf])
    model = load_model(network, tokenizer=number_words())
    taken = capture(model, "5 9 7")
    taken.save(tmp_path / "pass.safetensors")
    opened = open_capture(tmp_path / "pass.safetensors")
    np.testing.assert_array_equal(opened.logits, taken.logits)
    for one in (taken, opened):
        assert sum(share for _, share in one.next_tokens(64)) == pytest.approx(1)
    assert generate(model, "5 9 7", 3).steps[-1].logits[60] == -np.inf
    assert np.isfinite(logit_lens(taken, token=60)["probability"]).all()
    assert np.isfinite(head_effects(model, "5 9 7")["effect"]).all()


def test_a_number_that_nothing_else_depends_on():
    """The first token overflows after all attention, as it may in float16: what would show that is refused, the rest stays."""
    network = tiny("Llama")

    def overflow(_module, _given, returned):
        returned[0, 0] = torch.inf

    network.model.layers[1].mlp.down_proj.register_forward_hook(overflow)
    model = load_model(network)
    taken = capture(model, input_ids=IDS)
    assert np.isfinite(taken.logits).all()
    refuses(lambda: logit_lens(taken), "what the lens reads after 2 layers at token 0")
    assert np.isfinite(logit_lens(taken, positions=5)["probability"]).all()
    refuses(lambda: capture(model, input_ids=IDS, components=True), "first in layer 1 (mlp)")
