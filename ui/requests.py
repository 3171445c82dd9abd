"""Requests: frozen dataclasses that say what is computed. With other plain values they are the keys of every cache."""

from dataclasses import dataclass, field
from typing import Literal

from core.capturing.edits.edits import Edits
from core.capturing.sampling import Sampling
from core.models.devices import called
from core.models.modules import Kind
from core.models.rounded import Rounding
from core.whole_files import Version


@dataclass(frozen=True)
class ModelChoice:
    """A model as it is loaded. In another dtype or on another device it gives other numbers: it is another model.

    As text it is its name, with dtype and device where these are not float32 and the CPU.

    contents  of an uploaded file with a recorded pass or its weights, whose model is not here; None: not uploaded
    rounded   how the weights of a copy of it are rounded (core.models.rounded); None: it is the model itself
    version   of the file, where it is a recorded pass by its path: a file that has changed is another pass
    """

    name: str
    dtype: str = "float32"
    device: str = "cpu"
    contents: bytes | None = field(default=None, repr=False)
    rounded: Rounding | None = None
    version: Version | None = field(default=None, repr=False)

    @property
    def is_recorded(self) -> bool:
        """Whether it is a recorded pass or its weights, uploaded or by its path."""
        return self.contents is not None or self.name.strip().lower().endswith((".safetensors", ".npz"))

    def __str__(self) -> str:
        name = called(self.name, self.dtype, self.device)
        return name if self.rounded is None else f"{name} rounded to {self.rounded}"


@dataclass(frozen=True)
class GeneratedTarget:
    """A target that the model writes by itself: always the most probable token, until it ends its text or reaches the limit.

    whole  whether its decoder has read all of that; otherwise its last token is what comes next
    """

    max_tokens: int = 64
    whole: bool = True


Target = str | tuple[int, ...] | GeneratedTarget | None


@dataclass(frozen=True)
class TextRequest:
    """One pass of one model over one text, the image in a file, or both.

    target  what the decoder of an encoder-decoder has written: a text, token numbers, or what it writes by itself
    keep    how many tokens of a longer text are kept; None: all
    image   the contents of the file; the text is then empty, unless the model reads it too
    edits   what is changed in the pass; None: nothing
    """

    model: ModelChoice
    text: str
    pair: str | None = None
    target: Target = None
    keep: int | None = None
    image: bytes | None = None
    edits: Edits | None = None

    @property
    def reads_both(self) -> bool:
        """Whether an image is read with the text. What is computed from texts alone is not offered then."""
        return self.image is not None and bool(self.text)


@dataclass(frozen=True)
class HeadRequest:
    """One head of one pass."""

    text: TextRequest
    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True)
class KindRequest:
    """All layers and heads of one kind of attention in one pass."""

    text: TextRequest
    kind: Kind


@dataclass(frozen=True)
class AnswerRequest:
    """What an answer was read from: the logit of a next token, or the cosine of the sentence vector with that of `like`.

    token  the number of the next token; None where the answer is a cosine
    than   the number of the token with whose logit it is compared; "mean": with the mean of all
    """

    text: TextRequest
    token: int | None
    than: int | Literal["mean"]
    like: str = ""


@dataclass(frozen=True)
class WritingRequest:
    """The text that a model writes after another one, or as the answer to it as a message (`chat`)."""

    text: TextRequest
    chat: bool
    sampling: Sampling


@dataclass(frozen=True)
class RunRequest:
    """One model over a text of many tokens. contents: of the file of that name"""

    model: ModelChoice
    name: str
    contents: bytes
