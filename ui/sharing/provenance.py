"""The origin of a page's numbers in words, for every file in which they are shared."""

from __future__ import annotations

import re

from core.capturing.edits.lines import lines_of
from core.exporting.documents import PACKAGES, About, now
from core.versions import versions
from ui.requests import HeadRequest, TextRequest
from ui.shown import PageContents
from ui.views.sources import models, passes

_UNFIT = re.compile(r"[^A-Za-z0-9.]+")


def about(shown: PageContents) -> dict[str, str]:
    """Return the page, the model with revision and dtype, the head, its text, changes, versions and date, each as text."""
    if shown.about is not None:  # from a file, whose numbers are older than today
        return {"page": shown.title, **shown.about}
    facts = {"page": shown.title}
    if shown.of is not None:
        facts |= _of_model(shown.of)
    if shown.head is not None:
        facts["numbers"] = shown.head().says
    for name, other in shown.beside.items():
        facts |= {f"{name}, {fact}": text for fact, text in _of_model(other).items() if facts.get(fact) != text}
    return facts | {f"version of {name}": version for name, version in versions(*PACKAGES).items()} | {"date": now()}


def _of_model(of: HeadRequest) -> dict[str, str]:
    text, model = of.text, models.load(of.text.model)
    facts = {"model": model.name, "revision": model.revision, "dtype": model.dtype}
    facts |= {"device": text.model.device} if text.model.device != "cpu" else {}
    facts |= {"attention": of.kind, "layer": str(of.layer), "head": str(of.head), "layer.head": f"{of.layer}.{of.head}"}
    facts |= {"text": text.text} if text.text or text.image is None else {}
    facts |= {} if text.image is None else {"image": "as uploaded"}
    facts |= {"second text": text.pair} if text.pair else {}
    facts |= _target(text)
    facts |= {"cut to": f"{text.keep} tokens"} if text.keep is not None else {}
    facts |= {"changes": "; ".join(lines_of(text.edits))} if text.edits else {}
    return facts


def _target(text: TextRequest) -> dict[str, str]:
    """Return what the decoder has written, and whether the model generated it or it was given as token numbers."""
    if not (target := passes.target_of(text)):
        return {}
    if isinstance(target, str):
        return {"written by the decoder": target}
    how = "generated, the most probable token at each step" if text.target != target else "given as token numbers"
    written = models.load(text.model).text_of(target)
    return {"written by the decoder": written, "its tokens": f"{', '.join(map(str, target))} ({how})"}


def lines(about: About, *, with_text: bool, with_hash: bool) -> list[str]:
    """Return the lines about the origin that stand in a picture.

    with_text  whether they name the model, the head and the text
    with_hash  whether they give the beginning of the model's revision
    """
    revision = [about["revision"][:24]] if with_hash and "revision" in about else []
    if not with_text:
        return revision
    model = [about["model"], f"layer {about['layer']}, head {about['head']}"] if "model" in about else [about["page"]]
    texts = {"text", "second text", "written by the decoder", "changes"}
    return [
        " · ".join([*model, *([about["dtype"]] if "dtype" in about else []), *revision]),
        *([about["numbers"]] if "numbers" in about else []),
        *(f"{name[:1].upper()}{name[1:]}: {text}" for name, text in about.items() if name.rpartition(", ")[2] in texts),
    ]


def file_name(about: About, what: str, ending: str = "") -> str:
    """Return a file name that any system accepts: what the file shows, its model and its head."""
    words = [what, about.get("model", about["page"]), about.get("layer.head", "")]
    return "_".join(_UNFIT.sub("-", word).strip("-.")[:40] for word in words if word) + ending
