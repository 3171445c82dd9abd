"""Tiny networks that read an image with a text, each with a processor: transformers' own classes, without files."""

import inspect
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import transformers as t
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from core import Model, load_model
from core.models.images import of_images_alone
from tests.core.tiny_models import IDS, LOCAL, SMALL, randomised

WORDS = 32  # tokens "0" to "31"; special tokens follow
VOCABULARY = 128
# Without and with a size of heads.
UNSIZED = SMALL | IDS | {"vocab_size": VOCABULARY, "max_position_embeddings": 256, "num_key_value_heads": 2}
TEXT = UNSIZED | {"head_dim": 8}
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4}
# Without a filter, a bright square changes exactly the patches that it lies in.
PLAIN = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 0}
QWEN = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
IDEFICS = (
    *("<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>"),
    *(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)),
)


def words(special: tuple[str, ...], **named: str) -> t.PreTrainedTokenizerFast:
    """A tokenizer for texts such as "5 17 8", with special tokens from number 32 on. named: "boi_token" and the like."""
    vocabulary = {str(number): number for number in range(WORDS)}
    vocabulary |= {token: WORDS + number for number, token in enumerate(special)}
    made = Tokenizer(WordLevel(vocabulary, unk_token="0"))
    made.pre_tokenizer = Whitespace()
    made.add_special_tokens(list(special))
    return t.PreTrainedTokenizerFast(tokenizer_object=made, bos_token="1", extra_special_tokens=named)


def _network(family: str, text: object, vision: object, **sizes: object) -> t.PreTrainedModel:
    """Of a family whose classes are called so, with the configurations of its two parts."""
    config = getattr(t, f"{family}Config")(text_config=text, vision_config=vision, **sizes)
    return getattr(t, f"{family}ForConditionalGeneration")(config)


def _qwen(family: str, vision: dict, rope: dict) -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    tower = vision | {"depth": 2, "hidden_size": 16, "num_heads": 2, "intermediate_size": 24, "patch_size": 4}
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    numbers = dict(zip(names, range(WORDS, WORDS + 4), strict=True))
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0} | rope}
    images = t.Qwen2VLImageProcessorPil(patch_size=4, min_pixels=64, max_pixels=1200, **PLAIN)
    kind = of_images_alone(getattr(t, f"{family}Processor"))
    processor = kind(image_processor=images, tokenizer=words(QWEN), chat_template=QWEN_TEMPLATE)
    return _network(family, text, tower | {"out_hidden_size": 32}, **numbers), processor


QWEN_TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endfor %}"
)


def _llava(side: int = 24, family: str = "Llava", **tiles: object) -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    vision = t.CLIPVisionConfig(**TOWER | {"num_hidden_layers": 3}, image_size=side)
    network = _network(family, t.LlamaConfig(**TEXT), vision, image_token_index=32, vision_feature_layer=-2, **tiles)
    kind = t.LlavaNextImageProcessorPil if tiles else t.CLIPImageProcessorPil
    images = kind(size={"shortest_edge": side}, crop_size={"height": side, "width": side}, **tiles, **PLAIN)
    options = {"patch_size": 4, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return network, getattr(t, f"{family}Processor")(images, words(("<image>",)), **options)


def _onevision(side: int) -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    tiles = {"image_grid_pinpoints": [[side, 2 * side], [2 * side, side]]}
    vision = t.SiglipVisionConfig(**TOWER, image_size=side, vision_use_head=False)
    numbers = {"image_token_index": 32, "video_token_index": 33}
    network = _network("LlavaOnevision", t.Qwen2Config(**UNSIZED), vision, **numbers, **tiles)
    images = t.LlavaOnevisionImageProcessorPil(size={"height": side, "width": side}, **tiles, **PLAIN)
    options = {"num_image_tokens": (side // 4) ** 2, "vision_feature_select_strategy": "full"}
    kind = of_images_alone(t.LlavaOnevisionProcessor)
    processor = kind(image_processor=images, tokenizer=words(("<image>", "<video>")), **options)
    return network, processor


def _idefics(family: str) -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    vision = TOWER | {"image_size": 16}
    images = getattr(t, f"{family}ImageProcessorPil")(
        size={"longest_edge": 48}, max_image_size={"longest_edge": 16}, **PLAIN
    )
    kind = of_images_alone(getattr(t, f"{family}Processor"))
    videos = {"video_processor": None} if "video_processor" in kind.get_attributes() else {}
    processor = kind(image_processor=images, tokenizer=words(IDEFICS), image_seq_len=4, **videos)
    return _network(family, t.LlamaConfig(**TEXT), vision, image_token_id=32, scale_factor=2), processor


def _gemma(side: int = 24) -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    text, vision = TEXT | LOCAL | {"query_pre_attn_scalar": 8}, t.SiglipVisionConfig(**TOWER, image_size=side)
    numbers = {"image_token_index": 32, "boi_token_index": 33, "eoi_token_index": 34}
    network = _network("Gemma3", text, vision, mm_tokens_per_image=9, **numbers)
    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    images = t.Gemma3ImageProcessorPil(size={"height": side, "width": side}, **PLAIN)
    tokenizer = words(tuple(named.values()), **named)
    return network, t.Gemma3Processor(images, tokenizer, image_seq_length=9)


def _gemma_4() -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    """Its processor gives padded patches with their places, and would read sounds too."""
    text = (
        TEXT
        | LOCAL
        | {"global_head_dim": 8, "vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8}
    )
    vision = TOWER | {"num_key_value_heads": 2, "head_dim": 8, "pooling_kernel_size": 2, "position_embedding_size": 64}
    network = _network("Gemma4", text | {"use_bidirectional_attention": "vision"}, vision, image_token_id=32)
    named = {f"{part}_token": f"<{part}>" for part in ("image", "boi", "eoi", "audio", "boa", "eoa")}
    tokenizer = words(tuple(named.values()), **named)
    tokenizer.pad_token = "0"
    images = t.Gemma4ImageProcessorPil(patch_size=4, pooling_kernel_size=2, max_soft_tokens=70, resample=0)
    kind = of_images_alone(t.Gemma4Processor)
    return network, kind(feature_extractor=None, image_processor=images, tokenizer=tokenizer, video_processor=None)


def _paligemma() -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    text = t.GemmaConfig(**TEXT | {"vocab_size": 1300})
    vision = t.SiglipVisionConfig(**TOWER, image_size=24, vision_use_head=False)
    network = _network("PaliGemma", text, vision, image_token_index=32, projection_dim=32, hidden_size=32)
    images = t.SiglipImageProcessorPil(size={"height": 24, "width": 24}, **PLAIN)
    images.image_seq_length = 36
    return network, t.PaliGemmaProcessor(images, words(("<image>",)))


def _internvl() -> tuple[t.PreTrainedModel, t.ProcessorMixin]:
    vision = TOWER | {"image_size": [16, 16], "patch_size": [4, 4]}
    network = _network("InternVL", t.Qwen2Config(**UNSIZED), vision, image_token_id=32, image_seq_length=4)
    named = {"context_image_token": "<IMG_CONTEXT>", "start_image_token": "<img>", "end_image_token": "</img>"}
    tokenizer = words((*named.values(), "<video>"), **named, video_token="<video>")
    images = t.GotOcr2ImageProcessorPil(size={"height": 16, "width": 16}, max_patches=6, **PLAIN)
    return network, of_images_alone(t.InternVLProcessor)(images, tokenizer, image_seq_length=4)


SEEING: dict[str, Callable[[], tuple[t.PreTrainedModel, t.ProcessorMixin]]] = {
    "Qwen2.5-VL": lambda: _qwen(
        "Qwen2_5_VL", {"window_size": 16, "fullatt_block_indexes": [1]}, {"mrope_section": [1, 1, 2]}
    ),
    "Qwen3-VL": lambda: _qwen(
        "Qwen3VL", {"num_position_embeddings": 16, "deepstack_visual_indexes": [0]}, {"mrope_section": [2, 1, 1]}
    ),
    "LLaVA": _llava,
    "Idefics 3": lambda: _idefics("Idefics3"),
    "SmolVLM": lambda: _idefics("SmolVLM"),
    "Gemma 3": _gemma,
    "Gemma 4": _gemma_4,
    "PaliGemma": _paligemma,
    "InternVL": _internvl,
}


# Towers whose patches of 4 pixels leave 2 of 26 unread, also in each tile, and LLaVA-NeXT, which begins with the whole image,
# ends each row of patches with a token, and leaves out those of padding. And Gemma 4, which pads with patches.
WITH_REST = {
    "LLaVA": lambda: _llava(26),
    "Gemma 3": lambda: _gemma(26),
    "Gemma 4": _gemma_4,
    "LLaVA-NeXT": lambda: _llava(26, "LlavaNext", image_grid_pinpoints=[[26, 52], [52, 26]]),
    "LLaVA-OneVision": lambda: _onevision(26),
}


# Texts in which the processor's own token stands where the image belongs.
PLACES = {
    **dict.fromkeys(("Qwen2.5-VL", "Qwen3-VL"), "<|vision_start|><|image_pad|><|vision_end|> 5 6"),
    **dict.fromkeys(("LLaVA", "Idefics 3", "SmolVLM", "PaliGemma", "Gemma 4"), "<image> 5 6"),
    "Gemma 3": "<start_of_image> 5 6",
    "InternVL": "<IMG_CONTEXT> 5 6",
}


@cache
def seeing(name: str) -> Model:
    network, processor = SEEING[name]()
    return load_model(randomised(network), processor=processor)


def save_seeing(name: str, folder: Path) -> None:
    """Save it as its files are on the hub."""
    model = seeing(name)
    for part in (model.network, model.processor.image_processor, model.tokenizer):
        part.save_pretrained(folder)
    settings, names = model.processor.to_dict(), inspect.signature(type(model.processor).__init__).parameters
    kept = {key: value for key, value in settings.items() if key in names and isinstance(value, int | str)}
    (folder / "processor_config.json").write_text(json.dumps(kept))
    if model.processor.chat_template:
        (folder / "chat_template.jinja").write_text(model.processor.chat_template)
