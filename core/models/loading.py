"""Loading models: from the catalogue, by a Hugging Face id, from a folder, or from memory.

Every way leads to a folder in the Hugging Face layout, and there is one way from a folder to a `Model`. Only configurations,
tokenizer files and safetensors are read: pickled weights are never opened, and code that comes with a model is never run.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
import transformers
from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id
from safetensors import SafetensorError
from tokenizers import normalizers
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin
from transformers.core_model_loading import PrefixChange

from ..errors import InputError, first_line, model_error, shown
from ..installed import how_to_install_models
from ..record_pass import switch
from .adapters import AND, CONFIG, WEIGHTS, Adapter, is_adapter, merge, read_adapter
from .allowed import PLACES, Allowed, Place
from .bounds import BUILDING, SMALL_FILES, UnreadableError, as_large_as, check_files, checked_object, forbidden_length
from .calls import IMPLEMENTATIONS, PACKED
from .catalogue import CATALOGUE, CatalogueEntry
from .conversion import Report, converted, file_sha256, silent
from .dequantising import Undone, as_state, undone
from .devices import ON_DISK, checked_device, checked_device_map, checked_dtype
from .fields import is_panic
from .gguf_files import gguf_stem, is_gguf, named_shards, read_gguf
from .images import PROCESSOR_FILES, image_processor_in, pixel_values, processor_in
from .inputs import cannot_read
from .model import Model, read_by, reads_alone, reads_texts_beside
from .modules import asks_the_registry, attention_modules, reads_packed, text_tower
from .on_disk import OLLAMA, ollama_files, ollama_models, ollama_stops
from .sentences import is_sentence_transformer, network_folder, sentence_vector_in
from .sizes import Fits, ModelSize, require_room, size_of_gguf, size_of_tensors
from .weight_files import Stored, check_method, lost, notes_of, size_of, stored_in, undo, unread_files, weight_files

# Set here because huggingface_hub reads the environment variable of this name only when it is first imported.
constants.HF_HUB_DISABLE_TELEMETRY = True


# Files to download from the hub: no pickles, no code, nothing in subfolders (other formats, training states).
_WEIGHTS = ["model.safetensors", "model-*-of-*.safetensors"]
_SUBFOLDERS = ["*/*"]

# A folder with none of these has no tokenizer. Without this check transformers would make one with an empty vocabulary.
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "*.model", "*.spm")


def load_model(
    name_or_path_or_network: str | os.PathLike[str] | PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase | None = None,
    processor: ProcessorMixin | None = None,
    dtype: str = "float32",
    device: str = "cpu",
    device_map: str | Mapping[str, str | int] | None = None,
    look_in: Collection[Place] | Allowed = PLACES,
    report: Report | None = None,
) -> Model:
    """Load a model by its name in CATALOGUE, its Hugging Face id ("org/name"), its folder, its GGUF file or its name in Ollama
    ("ollama:llama3.2:1b"), or take one from memory.

    A GGUF file is converted once, into the user's cache; see `core.models.conversion`. The folder of a LoRA adapter opens as
    the model that it is for, with the adapter merged into it; see `core.models.adapters`.

    A model in memory is not copied: it is switched to evaluation and to the attention function that can be captured, and
    keeps its dtype and its device.

    tokenizer   replaces the model's own
    processor   of a model in memory that reads an image with a text; its tokenizer is the model's unless another is given
    dtype       of the weights and of the computation: a name in core.models.devices.DTYPES
    device      "cpu", "cuda", "cuda:1" or "mps". A pass runs there; what is kept of it is copied to the CPU
    device_map  instead of `device`, for a model that is too large for one GPU: "auto", or the device of each part of the
                network, "disk" for parts that are read for every pass (then run one pass at a time). Needs the package
                accelerate
    look_in     where to search for a name that is not in the catalogue: "folder" and "hub" (its cache and the network), or
                what a host allows, which then holds for links in a folder and for the model of an adapter too
    report      called with what takes time, in words, and the share that is done: from 0 to 1, or None if that is unknown

    Raises InputError: field "model" if there is no such model, it cannot be read, or it needs more memory than is free (which
    is checked before anything is loaded); "dtype", "device" or "device_map" for a value that is not available.
    """
    if isinstance(name_or_path_or_network, PreTrainedModel):
        return _in_memory(name_or_path_or_network, tokenizer, processor)
    number = checked_dtype(dtype)
    checked_map: Any = None  # for transformers, which accepts a device_map only with accelerate
    devices = (checked_device(device, dtype),)
    if device_map is not None:
        checked_map, devices = checked_device_map(device_map, dtype)
    name = _checked_name(name_or_path_or_network)
    report = report or silent

    def fits(size: ModelSize) -> None:
        if ON_DISK not in devices:  # the disk has room for any model
            require_room(size, name, dtype, devices)

    source = _locate(name, look_in, report, fits, dtype=dtype)
    kind, config = _architecture(source)
    files, stored = _weights(source)
    size = size_of(stored)
    fits(size)
    report(f"Reading {source.name}", None)
    network, notes = _network(source, kind, config, stored, number, checked_map)
    tokenizer = tokenizer or _tokenizer(source)
    model = _in_memory(network, tokenizer, processor or _processor(source, config, tokenizer))
    if device_map is None:
        model.network.to(devices[0])  # type: ignore[arg-type]
    if model.reads_images:
        image_processor, said = _image_processor(source, kind, config)
        model = replace(model, image_processor=image_processor, notes=said)
    if name.startswith(OLLAMA):
        with source.refusing("has parameters of Ollama's that cannot be read"):
            model = _stopping(model, ollama_stops(name))
    sentence = sentence_vector_in(source.outermost, tokenizer)
    if is_sentence_transformer(source.outermost) and model.is_encoder_decoder:
        sentence = replace(sentence, left_out=(*sentence.left_out, "what its encoder alone gives"))
    return replace(
        model,
        name=source.title,
        revision=_revision(source, files),
        size=size,
        notes=(*model.notes, *notes, *unread_files(source.folder, files), *sentence.notes(source.name)),
        sentence=sentence,
        folder=source.folder,
        adapter=None if source.adapter is None else source.adapter.file,
    )


def load_outline(name_or_path: str | os.PathLike[str]) -> Model:
    """Load a model without its weights: its network is on torch's meta device, takes no memory and computes nothing. Raises
    InputError as `load_model` does."""
    source = _locate(_checked_name(name_or_path), weights=False)
    network = _built(source, *_architecture(source))
    return replace(_in_memory(network, _tokenizer(source)), name=source.title, revision=source.revision or "")


def model_size(name_or_path: str | os.PathLike[str]) -> ModelSize:
    """The memory that a model needs, by the headers of its files, or by the hub if these are not on this computer. Raises
    InputError (field "model")."""
    name = _checked_name(name_or_path)
    if files := _gguf_files(name):
        return size_of_gguf(read_gguf(files))
    source = _locate(name, weights=False)
    try:
        return size_of(_weights(source)[1])
    except InputError:
        if source.revision is None or (size := _size_on_hub(source)) is None:
            raise
        return size


def model_revision(name_or_path: str | os.PathLike[str]) -> str:
    """The `Model.revision` that `load_model` would give. Reads the weights of a folder. Raises InputError (field "model")."""
    source = _locate(_checked_name(name_or_path), weights=False)
    return _revision(source, _weights(source)[0])


def _revision(source: _Located, files: list[Path]) -> str:
    revision = source.revision or _sha256(files)
    if source.adapter is None:
        return revision
    return f"{revision}{AND}{source.adapter.revision or _sha256([source.adapter.file])}"


# --- where a model is


@dataclass(frozen=True)
class _Located:
    """The files of a model, and the errors about them.

    given     the name as it was typed
    folder    that of the network
    revision  the model's revision; None: the hash of the weights
    home      a folder of sentence-transformers that has the network's folder in it; None: it is the same
    reader    the class that reads its tokenizer's files. AutoTokenizer takes some for another model's, by the model's type
    adapter   what is merged into its weights
    """

    given: str
    name: str
    folder: Path
    revision: str | None = None
    home: Path | None = None
    reader: Any = transformers.AutoTokenizer
    adapter: Adapter | None = None

    @property
    def title(self) -> str:
        """The model's name: "model", or "model + adapter"."""
        return self.name if self.adapter is None else f"{self.name} + {self.adapter.name}"

    @property
    def outermost(self) -> Path:
        return self.home or self.folder

    def has(self, *patterns: str) -> bool:
        return _any_in(self.folder, patterns)

    def refuse(self, why: str, error: BaseException | None = None) -> NoReturn:
        raise model_error(f"{self.given} {why}. {_CHOICES}") from error

    @contextmanager
    def refusing(self, why: str) -> Iterator[None]:
        """Refuse the model if anything fails within this context; architectures and tokenizers fail in ways of their own."""
        try:
            yield
        except InputError:
            raise
        except UnreadableError as error:
            self.refuse(str(error), error)
        except SafetensorError as error:
            self.refuse(f"has damaged or incomplete weights ({first_line(error)}). Copy or download them again", error)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            self.refuse(f"{why}: {first_line(error)}", error)


def _any_in(folder: Path, patterns: Iterable[str]) -> bool:
    return any(path for pattern in patterns for path in folder.glob(pattern))


def _checked_name(name: object) -> str:
    if not isinstance(name, str | os.PathLike):
        raise model_error(
            f"A model is given by its name, its folder or as a transformers PreTrainedModel, not as {type(name).__name__}."
        )
    text = str(os.fspath(name)).strip()
    if not text:
        raise model_error(f"The model has no name. {_CHOICES}")
    if len(text) > 4096 or not text.isprintable():
        raise model_error(f"{text[:60]!r} is too long or has unprintable characters. {_CHOICES}")
    return text


_ENTRIES = {entry.name: entry for entry in CATALOGUE}
_CHOICES = (
    f"Without a network there are {', '.join(_ENTRIES)}, any GGUF file, and any folder with a config.json and "
    f"safetensors; with one, any Hugging Face id such as openai-community/gpt2."
)


def _locate(
    name: str,
    look_in: Collection[Place] | Allowed = PLACES,
    report: Report = silent,
    fits: Fits = lambda _any_size: None,
    *,
    weights: bool = True,
    dtype: str = "float32",
) -> _Located:
    """Find a model: in the catalogue, as a GGUF file or a folder, on the hub. `fits` is called before large files are made or
    downloaded; `weights` says whether to download the weights; `dtype` is that of a conversion. An adapter is found as the
    model that it is for, in the same places; one from the hub only for a model of the catalogue or of the hub."""
    found = _found(name, look_in, report, fits, weights, dtype)
    if not is_adapter(found.folder):
        return found
    with found.refusing("is an adapter that cannot be read"):
        adapter = read_adapter(found.folder, found.name, found.revision)
    try:
        base = _checked_name(adapter.base)
        beside = look_in.beside(name) if isinstance(look_in, Allowed) else look_in
        model = _found(base, beside if found.revision is None else ("hub",), report, fits, weights, dtype)
    except InputError as error:
        raise model_error(
            f"{found.given} is an adapter for another model, which its {CONFIG} names (base_model_name_or_path). {error}"
        ) from error
    return replace(model, adapter=adapter)


def _found(
    name: str, look_in: Collection[Place] | Allowed, report: Report, fits: Fits, weights: bool, dtype: str
) -> _Located:
    """As `_locate` finds it, an adapter as itself."""
    if isinstance(look_in, Allowed):
        look_in = _places(name, look_in)
    entry = _ENTRIES.get(name)
    if (entry or "folder" in look_in) and (files := _gguf_files(name)):
        called = name if entry or name.startswith(OLLAMA) else None
        made = converted(files, report, lambda: fits(size_of_gguf(read_gguf(files, called))), dtype, called)
        revision = f"sha256 {made.sha256} (GGUF, {made.quantisation})"
        named, reader = called or gguf_stem(files[0]), transformers.TokenizersBackend
        return _Located(name, named, made.folder, revision, reader=reader)
    if entry is not None:
        return _Located(entry.name, entry.name, _path(entry))
    if "folder" in look_in and (folder := _folder(name)) is not None:
        return folder
    if "hub" not in look_in:
        raise model_error(f"{name!r} is not here. {_CHOICES}")
    return _from_hub(name, report, fits, weights)


def _places(name: str, allowed: Allowed) -> Collection[Place]:
    """Where a model may be looked for. Raises InputError if it may not be loaded, or leads elsewhere."""
    if not (places := allowed.places_of(name)):
        raise model_error("This host does not load that model.")
    try:
        way_out = allowed.beside(name).way_out(name) if "folder" in places else None
    except (OSError, ValueError) as error:
        _cannot_open(name, error)
    if way_out is not None:
        raise model_error(
            f"{name} holds {shown(way_out.name)}, a link that leads out of the folders that this host allows. Put the file "
            f"itself there."
        )
    return places


def _folder(name: str) -> _Located | None:
    """The folder of this name; None if there is no such folder and the hub may have the name."""
    try:
        path = Path(name).expanduser()
        if path.is_dir():
            home = path.resolve()
            return _Located(name, home.name, network_folder(home), home=home)
        is_file, is_other = path.is_file(), path.exists() and not path.is_file()
    except (OSError, RuntimeError) as error:
        _cannot_open(name, error)
    if is_other:
        raise model_error(f"{name!r} is a pipe or a device. {_CHOICES}")
    if is_file:
        raise model_error(
            f"{name!r} is a file, and not one that begins like a GGUF file. Give the path of a GGUF file, or of a folder with "
            f"config.json and safetensors."
        )
    if name.startswith((".", "/", "~")) or "\\" in name or name.count("/") > 1:
        raise model_error(f"There is no folder {name!r}. {_CHOICES}")
    return None


def _gguf_files(name: str) -> Sequence[Path]:
    """The GGUF file of this name, or a model's shards as far as they are known; none if there is no such file."""
    entry = _ENTRIES.get(name)
    if name.startswith(OLLAMA):
        files = ollama_files(name)
        if not files:
            there = ", ".join(ollama_models()[:20]) or "none"
            raise model_error(f"Ollama has no model {name.removeprefix(OLLAMA)!r} here. It has {there}.")
        if ollama_files(name, "adapter"):
            raise model_error(
                f"Ollama adds an adapter to {name.removeprefix(OLLAMA)}, which is not read here. {_CHOICES}"
            )
        return files
    try:
        path = _path(entry) if entry else Path(name).expanduser()
        if path.is_file():
            return [path] if is_gguf(path) else []
        return _gguf_in(path) if path.is_dir() and not (path / "config.json").exists() else []
    except (OSError, RuntimeError) as error:
        _cannot_open(name, error)


def _gguf_in(folder: Path) -> list[Path]:
    """The only model in GGUF files of a folder. Raises InputError if it has several."""
    models = {next(named_shards(path)): path for path in sorted(folder.glob("*.gguf"))}
    if len(models) > 1:
        names = ", ".join(sorted(path.name for path in models)[:10])
        raise model_error(f"{folder.name} has {len(models)} GGUF models: {names}. Give the path of one.")
    return [*models.values()]


def _cannot_open(name: str, error: Exception) -> NoReturn:
    why = getattr(error, "strerror", None) or error
    raise model_error(f"{name!r} cannot be opened: {why}. {_CHOICES}") from error


def _path(entry: CatalogueEntry) -> Path:
    """The file or folder of an installed model."""
    if (path := entry.found()) is None:
        raise model_error(f"{entry.name} is not installed. Install the models with: {how_to_install_models()}")
    return path


def _from_hub(name: str, report: Report, fits: Fits, weights: bool) -> _Located:
    """Download a model. Its small files come first, so that an unreadable model is refused before gigabytes follow."""
    try:
        validate_repo_id(name)
        report(f"Asking the Hugging Face hub for {name}", None)
        folder = Path(snapshot_download(name, allow_patterns=list(SMALL_FILES), ignore_patterns=_SUBFOLDERS))
        source = _Located(name, name, folder, revision=folder.name)
        if is_adapter(folder):
            if weights:
                snapshot_download(name, revision=source.revision, allow_patterns=[WEIGHTS])
            return source
        _architecture(source)  # refuses what cannot be read
        if is_sentence_transformer(folder):
            snapshot_download(name, revision=source.revision, allow_patterns=["[0-9]_*/config.json"])
        if not weights:
            return source
        if not source.has(*_WEIGHTS) and (size := _size_on_hub(source)) is not None:
            fits(size)
        report(f"Downloading the weights of {name}", None)
        snapshot_download(name, revision=source.revision, allow_patterns=_WEIGHTS)
    except InputError:
        raise
    except Exception as error:  # the hub's own errors, those of two transports (HTTP and Xet), and the system's
        raise model_error(f"{_hub_says(name, error)} {_CHOICES}") from error
    return source


def _size_on_hub(source: _Located) -> ModelSize | None:
    """The size that the hub gives; None if it gives no size: after the download the headers of the files do."""
    with suppress(Exception):  # as above
        metadata = HfApi().get_safetensors_metadata(source.name, revision=source.revision)
        return size_of_tensors(metadata.parameter_count.items())
    return None


def _hub_says(name: str, error: Exception) -> str:
    if isinstance(error, HFValidationError):
        allowed = "(org/name, each of letters, digits, '-', '_' and '.')"
        return f"{name!r} is not a model here, nor a name that the Hugging Face hub allows {allowed}."
    if isinstance(error, GatedRepoError):
        return f"{name} is gated: accept its terms at https://huggingface.co/{name} and log in with `hf auth login`."
    if isinstance(error, RepositoryNotFoundError):
        return f"{name} was not found on the Hugging Face hub (or is private). Check its spelling."
    # What the operating system refuses has a number; the hub's own errors are OSErrors without one.
    if isinstance(error, OSError) and error.errno is not None:
        advice = "Make room there or make it writable, or set the environment variable HF_HOME to another folder."
        return f"{name} cannot be kept in {constants.HF_HUB_CACHE}: {first_line(error)}. {advice}"
    reason = first_line(error.__cause__ or error)
    return f"{name} is not on this computer, and the Hugging Face hub could not be reached to look for it: {reason}."


# --- from a folder to a network and a tokenizer


def _architecture(source: _Located) -> tuple[type[PreTrainedModel], PreTrainedConfig]:
    """The class and the configuration of a model that can be read. Raises InputError for any other."""
    path = source.folder / "config.json"
    with source.refusing("is a folder that cannot be read"):
        if is_adapter(source.folder):
            source.refuse(
                "is itself an adapter for another model. Merge it into that model (peft: merge_and_unload) and save it"
            )
        if not path.exists():
            source.refuse("has no config.json, so it is not a model in the Hugging Face layout")
        check_files(source.folder)
        settings = checked_object(path)
        model_type = settings.get("model_type")
        if not isinstance(model_type, str) or model_type not in transformers.CONFIG_MAPPING:
            if "auto_map" in settings:
                source.refuse(f"needs Python code of its own for its model type {model_type!r}; such code is never run")
            source.refuse(f"has the model type {model_type!r}, unknown to transformers {transformers.__version__}")
        if (forbidden := forbidden_length(settings)) is not None:
            source.refuse(forbidden)
        check_method(source.folder, settings)
    with source.refusing("has a config.json that transformers does not accept"):
        config = transformers.AutoConfig.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)
    # transformers would read that file, and `revision` would name another.
    if other := getattr(config, "transformers_weights", None):
        source.refuse(f"names {other!r} as its weights. Rename that file to model.safetensors and remove the name")
    kind = _class_for(source, config)
    _refuse_unreadable(source, kind, config)
    return kind, config


def _refuse_unreadable(source: _Located, kind: type[PreTrainedModel], config: PreTrainedConfig) -> None:
    """Raise InputError for a model that reads neither texts nor images, or texts only together with something else. If its
    class does not say so, it is tried with one token, without its weights."""
    given = read_by(kind)
    if reads_alone(kind):
        return
    if given != "texts" and not hasattr(kind, "get_text_features"):
        beside = " together with texts, and neither alone" if reads_texts_beside(kind) else ", not texts"
        source.refuse(f"is a {kind.__name__}, which reads {given}{beside}")
    whole = _built(source, kind, config)
    if (why := cannot_read(text_tower(whole) or whole)) is not None:
        source.refuse(f"is a {kind.__name__}, which {why}")


def _built(source: _Located, kind: Any, config: PreTrainedConfig) -> PreTrainedModel:
    """Build the network on torch's meta device, where it takes no memory and computes nothing."""
    with source.refusing(f"could not be built as {kind.__name__}"), BUILDING, as_large_as(None), torch.device("meta"):
        return kind(deepcopy(config)).eval()


def _weights(source: _Located) -> tuple[list[Path], dict[str, Stored]]:
    """The files of its weights, and all tensors that their headers announce, undone where they are quantised."""
    with source.refusing("has weights that cannot be read"):
        files = weight_files(source.folder)
        return files, undone(source.folder, stored_in(files))


def _network(
    source: _Located,
    kind: Any,
    config: PreTrainedConfig,
    stored: dict[str, Stored],
    dtype: torch.dtype,
    device_map: Any,
) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """The network with its weights, and sentences about what it leaves out of them."""
    with source.refusing(f"could not be loaded as {kind.__name__}"):
        only_named = lost(source.folder)
        undo(config, stored)
        read: dict[str, Any] = {"pretrained_model_name_or_path": source.folder}
        if any(isinstance(tensor, Undone) for tensor in stored.values()):
            if isinstance(device_map, dict) and ON_DISK in device_map.values():
                raise UnreadableError("is quantised, and is not undone where its weights stay on the disk (device_map)")
            read = {"pretrained_model_name_or_path": None, "state_dict": as_state(weight_files(source.folder), stored)}
            if source.has("generation_config.json"):
                read["generation_config"] = transformers.GenerationConfig.from_pretrained(source.folder)
        try:
            with BUILDING, as_large_as(size_of(stored)):
                network, loading = kind.from_pretrained(
                    **read,
                    config=config,
                    dtype=dtype,
                    device_map=device_map,
                    attn_implementation=None if kind._can_set_attn_implementation() else "eager",
                    use_safetensors=True,
                    local_files_only=True,
                    trust_remote_code=False,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                )
        except NotImplementedError as error:  # it compares tied weights before it says which of them do not fit
            raise UnreadableError(
                "has tied weights of other shapes than its config.json (tie_word_embeddings)"
            ) from error
        # transformers fills what it did not find with random numbers.
        notes = notes_of(network, stored, only_named, loading["missing_keys"])
    if loading["mismatched_keys"]:
        key, shape, wanted = min(loading["mismatched_keys"])
        source.refuse(f"has weights of other shapes than its config.json: {key} is {list(shape)}, not {list(wanted)}")
    if source.adapter is None:
        return network, notes
    what = f"could not be merged into {source.name}"
    with replace(source, given=source.adapter.name).refusing(what):
        try:
            network, left_out = merge(network, source.adapter)
        except (ValueError, TypeError, LookupError, AttributeError, re.error) as error:
            if isinstance(error, UnreadableError):
                raise
            why = f"its {CONFIG} names modules, layers or a task that this model does not have"  # peft names its own classes
            raise UnreadableError(
                f"{what}: {why}. Check that it is an adapter for {shown(source.adapter.base)}"
            ) from error
    merged = f"This is {source.title}: the weights of the model with the adapter merged into them."
    return network, (*notes, merged, *left_out)


def _class_for(source: _Located, config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that the configuration names, if it predicts the next token or has no task's head; else the bare model: T5's
    ForConditionalGeneration and EncoderModel stay, BertForSequenceClassification becomes BertModel. In a folder of
    sentence-transformers always the bare model, and of an encoder-decoder the encoder: what it was trained for."""
    of_sentences = is_sentence_transformer(source.outermost)
    names = config.architectures if isinstance(config.architectures, list) and not of_sentences else []
    for name in map(str, names):
        kind = getattr(transformers, name, None)
        if not isinstance(kind, type) or not issubclass(kind, PreTrainedModel) or kind.config_class is not type(config):
            continue
        if kind.can_generate() or ("For" not in name and not name.endswith("PreTrainedModel")):
            return kind
    bare: Any = None
    with suppress(ValueError):  # for some models transformers names a class that it does not have
        if of_sentences:
            bare = transformers.MODEL_FOR_TEXT_ENCODING_MAPPING.get(type(config), None)
        bare = bare or transformers.MODEL_MAPPING.get(type(config), None)
    if bare is None:
        source.refuse(f"is a {config.model_type}, for which transformers has no model without a task")
    return bare[0] if isinstance(bare, tuple) else bare


def _tokenizer(source: _Located) -> PreTrainedTokenizerBase | None:
    folders = [source.folder] if source.adapter is None else [source.adapter.folder, source.folder]
    folder = next((folder for folder in folders if _any_in(folder, _TOKENIZER_FILES)), None)
    if folder is None:
        return None
    with source.refusing("has a tokenizer that cannot be loaded"):
        tokenizer: Any = source.reader.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if sentence_vector_in(source.outermost, tokenizer).lower_case:
            backend = tokenizer.backend_tokenizer
            own = [backend.normalizer] if backend.normalizer else []
            backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *own])
        return tokenizer


def _processor(
    source: _Located, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase | None
) -> ProcessorMixin | None:
    """The processor of a model that reads an image with a text; None if the model reads only texts, or lacks files
    or a package."""
    has_files = source.has(*PROCESSOR_FILES)
    if tokenizer is None or not has_files or getattr(config, "image_token_id", None) is None:
        return None
    with source.refusing("has a processor that cannot be loaded"), suppress(ImportError):
        return processor_in(source.folder, config, tokenizer)


def _image_processor(source: _Located, kind: Any, config: PreTrainedConfig) -> tuple[Any, tuple[str, ...]]:
    """The image processor of a model that reads images alone, and sentences about it."""
    with source.refusing("has a preprocessor_config.json that cannot be used"):
        processor = image_processor_in(source.folder)
        if processor is None:
            said = "Its folder has no preprocessor_config.json: an image is squeezed to its size, with colours from -1 to 1."
            return None, (said,)
        try:
            pixels = pixel_values(source.name, processor, np.full((40, 60, 3), 9, np.uint8))
        except InputError as error:
            raise UnreadableError(
                f"has a preprocessor_config.json that cannot be used: {str(error).removesuffix('.')}"
            ) from error
    height, width = pixels.shape[-2:]
    network = _built(source, kind, config)
    with source.refusing(
        f"makes {width} × {height} pixels of an image, by its preprocessor_config.json, and cannot read them"
    ):
        network(pixel_values=pixels.to("meta"))
    return processor, ()


def _in_memory(
    whole: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None, processor: ProcessorMixin | None = None
) -> Model:
    tower = text_tower(whole)
    network: Any = tower or whole
    network.eval()
    if tower is not None:  # so that its weights can be found in the files of the whole
        of_whole = getattr(whole, "_weight_conversions", ())
        network._weight_conversions = [*of_whole, PrefixChange(prefix_to_remove="text_model")]
    asking = list(filter(asks_the_registry, network.modules()))
    # Of a model that reads a text, the part that reads it has to ask: in GIT only the tower that reads images does.
    reading = attention_modules(network) if read_by(type(network)) == "texts" else asking
    if reading and type(network)._can_set_attn_implementation():
        switch(network, IMPLEMENTATIONS)
        for module in reads_packed(network):
            module.config._attn_implementation = PACKED  # type: ignore[union-attr]
    else:
        # set_attn_implementation would not change such networks. Falcon in its other implementation, when asked for its
        # weights, adds a mask of True and False to its scores and reads the future.
        network.config._attn_implementation = "eager"
    tower_of = None if tower is None else type(whole).__name__
    if tokenizer is None and processor is not None:
        tokenizer = processor.tokenizer
    return Model(type(network).__name__, network, tokenizer, "in memory", tower_of=tower_of, processor=processor)


def _stopping(model: Model, texts: Iterable[str]) -> Model:
    """Have a model stop at these texts too, as far as each is one token; of the others a note says that it does not."""
    tokenizer, settings = model.tokenizer, model.network.generation_config
    assert tokenizer is not None
    assert settings is not None  # those of a converted GGUF file
    tokens = {text: tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts}
    settings.eos_token_id = sorted({*settings.eos_token_id}.union(*(ids for ids in tokens.values() if len(ids) == 1)))
    others = ", ".join(f"“{shown(text, 60)}”" for text, ids in tokens.items() if len(ids) != 1)
    note = f"Ollama stops at {others}; here writing goes on, as this is not one token."
    return replace(model, notes=(*model.notes, note)) if others else model


def _sha256(files: list[Path]) -> str:
    if len(files) == 1:
        return f"sha256 {file_sha256(files[0])}"
    lines = "".join(f"{file_sha256(file)}  {file.name}\n" for file in files)
    return f"sha256 {hashlib.sha256(lines.encode()).hexdigest()}"
