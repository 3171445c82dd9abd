"""What views need: met by the right models, and what is missing is said in one sentence."""

import transformers as t

from core import load_model
from tests.core.tiny_models import VIT, WEIGHTS_ONLY, randomised
from ui.views.sources.models import NEXT_TOKENS, QUERIES_AND_KEYS, TEXTS, missing


def test_all_that_a_model_lacks_is_said():
    vit = load_model(randomised(t.ViTModel(t.ViTConfig(**VIT))))
    lacks = f"{vit.name} reads images, not texts and predicts no next token. Choose another model."
    assert missing(vit, TEXTS, NEXT_TOKENS) == lacks


def test_needs_are_met_by_the_right_models(minilm, smollm):
    exposed = load_model(randomised(WEIGHTS_ONLY["GPT-J"]()))
    found = {need: [need.is_met(model) for model in (minilm, smollm, exposed)] for need in (QUERIES_AND_KEYS, TEXTS)}
    assert found == {QUERIES_AND_KEYS: [True, True, False], TEXTS: [True, True, True]}
    assert [missing(model, NEXT_TOKENS) is None for model in (minilm, smollm)] == [False, True]
    lacks = f"{exposed.name} exposes only its attention weights. Choose another model."
    assert missing(exposed, QUERIES_AND_KEYS) == lacks
