"""Where the numbers of a page come from, in words, for whatever takes them away."""

from __future__ import annotations

import re

from core.capturing.edit_lines import lines_of
from core.exporting.about import PACKAGES, About, now
from core.versions import versions
from ui import models, passes
from ui.requests import HeadRequest, TextRequest
from ui.shown import Shown

_UNFIT = re.compile(r"[^A-Za-z0-9.]+")


def about(shown: Shown) -> dict[str, str]:
    """The page, the model with revision and dtype, the head as text, what was read, what was changed, versions and date."""
    if shown.about is not None:  # of a file, whose numbers are older than this
        return {"page": shown.title, **shown.about}
    found = {"page": shown.title}
    if shown.of is not None:
        found |= _of_model(shown.of)
    if shown.head is not None:
        found["numbers"] = shown.head().says
    for name, other in shown.beside.items():
        found |= {f"{name}, {fact}": text for fact, text in _of_model(other).items() if found.get(fact) != text}
    return found | {f"version of {name}": version for name, version in versions(*PACKAGES).items()} | {"date": now()}


def _of_model(of: HeadRequest) -> dict[str, str]:
    text, model = of.text, models.load(of.text.model)
    found = {"model": model.name, "revision": model.revision, "dtype": model.dtype}
    found |= {"device": text.model.device} if text.model.device != "cpu" else {}
    found |= _place(of.kind, of.layer, of.head)
    found |= {"text": text.text} if text.image is None else {"image": "as uploaded"}
    found |= {"second text": text.pair} if text.pair else {}
    found |= _written(text)
    found |= {"cut to": f"{text.keep} tokens"} if text.keep is not None else {}
    found |= {"changes": "; ".join(lines_of(text.edits))} if text.edits else {}
    return found


def _written(text: TextRequest) -> dict[str, str]:
    """What the decoder was given, and how."""
    if not (target := passes.target_of(text)):
        return {}
    found = {"written by the decoder": target if isinstance(target, str) else models.load(text.model).text_of(target)}
    if isinstance(target, str):
        return found
    how = "generated, the most probable token again and again" if text.target != target else "given as token numbers"
    return found | {"its tokens": f"{', '.join(map(str, target))} ({how})"}


def _place(kind: str, layer: int, head: int) -> dict[str, str]:
    return {"attention": kind, "layer": str(layer), "head": str(head), "layer.head": f"{layer}.{head}"}


def lines(about: About) -> list[str]:
    """What of it stands in a picture."""
    model = [about["model"], f"layer {about['layer']}, head {about['head']}"] if "model" in about else [about["page"]]
    details = [about[name] for name in ("dtype", "revision") if name in about]
    said = [" · ".join([*model, *(detail[:24] for detail in details)])]
    if "numbers" in about:
        said.append(about["numbers"])
    said += [
        f"{name[:1].upper()}{name[1:]}: {text}"
        for name, text in about.items()
        if name.rpartition(", ")[2] in ("text", "second text", "written by the decoder", "changes")
    ]
    return said


def file_name(about: About, what: str, ending: str = "") -> str:
    """A name for a file that any system takes: what it is, of which model and head."""
    words = [what, about.get("model", about["page"]), about.get("layer.head", "")]
    return "_".join(_UNFIT.sub("-", word).strip("-.")[:40] for word in words if word) + ending
