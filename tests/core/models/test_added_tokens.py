"""Texts that bring along the tokens which their tokenizer adds: what is said of them, and which text has each only once."""

import numpy as np
import pytest
import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from core import attention_weights, capture, generate, load_model, open_capture
from core.models.added_tokens import without_added
from tests.core.tiny_models import WEIGHTS_ONLY, randomised, tiny
from tests.core.tiny_seeing import seeing

PIECES = ("<s>", "</s>", "<pad>", "<unk>", "[CLS]", "[SEP]", "<end>", "hi", "you", "[INST]")
NUMBER = {piece: number for number, piece in enumerate(PIECES)}
NAMES = {"bos": "bos_token", "eos": "eos_token", "cls": "cls_token", "sep": "sep_token"}


def tokenizer(template: str = "", pair: str | None = None, template_of_chats: str | None = None, **special: str):
    """A tokenizer of words that puts these around every text, "<s> $A"; special: the roles of its special tokens."""
    made = Tokenizer(WordLevel(NUMBER, unk_token="<unk>"))
    made.pre_tokenizer = WhitespaceSplit()
    if template:
        used = [(piece, NUMBER[piece]) for piece in PIECES if piece in f"{template} {pair}"]
        made.post_processor = TemplateProcessing(single=template, pair=pair, special_tokens=used)
    named = {NAMES[role]: piece for role, piece in special.items()}
    return t.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", chat_template=template_of_chats, **named)


LLAMA = {"template": "<s> $A", "bos": "<s>", "eos": "</s>"}
BERT = {"template": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B [SEP]", "cls": "[CLS]", "sep": "[SEP]"}
ROBERTA = {"template": "<s> $A </s>", "pair": "<s> $A </s> </s> $B </s>", "bos": "<s>", "eos": "</s>", "sep": "</s>"}
T5 = {"template": "$A </s>", "eos": "</s>"}
OPT = {"template": "</s> $A", "bos": "</s>", "eos": "</s>"}
GPT2 = {"bos": "<end>", "eos": "<end>"}
WITHOUT = {"bos": "<s>", "eos": "</s>"}
CASES = [  # kind of tokenizer, text, what is said, the text without
    (LLAMA, "hi you", [], "hi you"),
    (LLAMA, "<s> [INST] hi", ["begins with “<s>” twice. The tokenizer of LlamaForCausalLM adds one"], "[INST] hi"),
    (LLAMA, "<s>hi", ["begins with “<s>” twice"], "hi"),
    (LLAMA, " \n<s> <s> hi", ["begins with “<s>” 3 times"], "hi"),
    (LLAMA, "hi </s>", [], "hi </s>"),
    (LLAMA, "hi <s> hi <s>", ["“<s>”, with which every text begins, also stands within this"], "hi <s> hi <s>"),
    (LLAMA, "<s> hi <s> hi", ["begins with “<s>” twice", "this one: at token 3."], "hi <s> hi"),
    (BERT, "[CLS] hi [SEP]", ["twice and ends with “[SEP]” twice. The tokenizer of LlamaForCausalLM adds both"], "hi"),
    (BERT, "hi [SEP] you", [], "hi [SEP] you"),
    (ROBERTA, "<s> hi </s> ", ["begins with “<s>” twice and ends with “</s>” twice"], "hi"),
    (T5, "hi </s>", ["ends with “</s>” twice. The tokenizer of LlamaForCausalLM adds one"], "hi"),
    (T5, "<unk> <unk> hi", [], "<unk> <unk> hi"),
    (OPT, "</s> hi", ["begins with “</s>” twice"], "hi"),
    (OPT, "hi </s> hi </s>", [], "hi </s> hi </s>"),
    (GPT2, "<end> hi <end> hi <end>", [], "<end> hi <end> hi <end>"),
    (GPT2, "<end> <end> hi", ["The text begins with “<end>” twice."], "<end> <end> hi"),
    (WITHOUT, "<s> hi </s>", [], "<s> hi </s>"),
]


@pytest.mark.parametrize(("kind", "text", "said", "without"), CASES)
def test_what_stands_twice_is_said_and_can_be_taken_out(kind, text, said, without):
    words = tokenizer(**kind)
    model = load_model(tiny("Llama"), tokenizer=words)
    taken = capture(model, text)
    assert len(taken.notes) == len(said)
    assert all(part in note for part, note in zip(said, taken.notes, strict=True))
    assert capture(model, input_ids=taken.input_ids).notes == taken.notes
    assert without_added(words, text) == without
    if without != text and "within" not in str(taken.notes):
        assert capture(model, without).notes == ()


def test_a_pair_has_its_separators_and_no_more_and_a_decoder_begins_once():
    for kind in (BERT, ROBERTA):
        model = load_model(tiny("BERT"), tokenizer=tokenizer(**kind))
        assert capture(model, "hi", pair="you").notes == ()
        end = "[SEP]" if kind is BERT else "</s>"
        assert [f"ends with “{end}” twice" in note for note in capture(model, "hi", pair=f"you {end}").notes] == [True]
    model = load_model(tiny("T5"), tokenizer=tokenizer(**T5))
    assert capture(model, "hi", target="you").notes == ()
    start = capture(model, "hi").target_ids[0]
    (note,) = capture(model, "hi", target=[start, 7]).notes
    assert "What the decoder has written begins with" in note


@pytest.mark.parametrize("template", ["<s> {{ messages[0]['content'] }}", "{{ messages[0]['content'] }}"])
def test_a_message_in_a_chat_template_begins_once_and_what_is_pasted_into_it_is_said(template):
    model = load_model(tiny("Llama"), tokenizer=tokenizer(**LLAMA, template_of_chats=template))
    assert generate(model, "hi", new_tokens=1, chat=True).notes == ()
    written = generate(model, "<s> hi", new_tokens=1, chat=True)
    assert written.notes == written.capture_of(0).notes
    assert len(written.notes) == template.startswith("<s>")


def test_weights_alone_and_recorded_passes_say_it_too(tmp_path):
    network = randomised(WEIGHTS_ONLY["BLOOM"]())
    assert len(attention_weights(load_model(network, tokenizer=tokenizer(**LLAMA)), "<s> hi").notes) == 1
    for kind in (LLAMA, BERT, GPT2):
        taken = capture(load_model(tiny("Llama"), tokenizer=tokenizer(**kind)), "<s> [CLS] hi [SEP]")
        taken.save(tmp_path / "pass.safetensors")
        assert open_capture(tmp_path / "pass.safetensors").notes == taken.notes
        assert len(taken.notes) == {"<s> $A": 1, "[CLS] $A [SEP]": 2}.get(kind.get("template"), 0)


def test_an_image_with_a_message_begins_once(monkeypatch):
    """A template that writes the beginning itself, as Gemma 3's does, with a tokenizer that adds it."""
    model = seeing("LLaVA")
    words = model.processor.tokenizer
    begin = words.convert_tokens_to_ids("1")
    adding = TemplateProcessing(single="1 $A", special_tokens=[("1", begin)])
    monkeypatch.setattr(words.backend_tokenizer, "post_processor", adding)
    template = "1 {% for part in messages[0]['content'] %}{{ part['text'] or '<image>' }} {% endfor %}"
    monkeypatch.setattr(model.processor, "chat_template", template)
    taken = capture(model, "5 17", image=np.zeros((24, 24, 3), np.uint8))
    assert taken.input_ids[0] == begin != taken.input_ids[1]


def test_there_is_nothing_to_say_of_most_texts(minilm, smollm):
    assert capture(minilm, "The animal.").notes == capture(smollm, "<|im_start|>user\nHi<|im_end|>").notes == ()
    assert "begins with “[CLS]” twice" in capture(minilm, "[CLS] The animal. [SEP]").notes[0]
    assert all(capture(load_model(tiny(name)), input_ids=[5, 5, 7]).notes == () for name in ("BERT", "Llama", "T5"))
