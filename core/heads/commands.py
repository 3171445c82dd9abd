"""`headlight heads` and `headlight why`: what the heads of a model do on a text, as a table or as JSON."""

import json
from collections.abc import Callable

import click
import pandas as pd

from ..capturing.capture import capture
from ..commands import ending
from ..errors import InputError
from ..models.inputs import one_token
from ..models.loading import load_model
from ..models.tokens import token_texts
from .attribution import logit_attribution
from .metrics import NAMES, head_metrics

MODEL = "SmolLM2-135M-Instruct"


def _prints_rows(function: Callable) -> Callable:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON, with all digits."),
        click.option("--most", "--top", type=click.IntRange(1), default=12, show_default=True, help="How many rows."),
        click.option("--model", default=MODEL, show_default=True, help="A name, folder, GGUF file or Hugging Face id."),
        click.argument("text"),
    ):
        function = option(function)
    return function


@click.command()
@_prints_rows
@click.option("--by", metavar="METRIC", default="entropy", show_default=True, help=f"One of {', '.join(NAMES)}.")
def heads(text: str, model: str, by: str, most: int, as_json: bool) -> None:
    """The heads of a model that have most of METRIC on TEXT: its mean over the queries, and its spread."""
    with ending():
        if by not in NAMES:
            raise InputError(f"There is no metric {by!r}. Choose one of {', '.join(NAMES)}.", field="by")
        table = head_metrics(capture(load_model(model), text)).dropna(subset=[by])
        if table.empty:
            raise InputError(f"Nothing in this text can be measured by {by}. Give another text.", field="text")
    _tell({"model": model, "by": by}, table.nlargest(most, by).filter(["layer", "head", by, f"{by}_spread"]), as_json)


@click.command()
@_prints_rows
@click.option("--answer", "--token", help='The next token, such as " Paris"; without it, the most probable one.')
@click.option("--against", help="The token whose logit is subtracted; without it, the mean of all logits.")
def why(text: str, model: str, answer: str | None, against: str | None, most: int, as_json: bool) -> None:
    """What heads, feed-forward layers and biases contributed to the logit of the token after TEXT, the strongest first."""
    with ending():
        loaded = load_model(model)
        chosen = None if answer is None else one_token(loaded, answer, with_blank=True, field="answer")
        other = "mean" if against is None else one_token(loaded, against, with_blank=True, field="against")
        passed = capture(loaded, text, components=True)
        table = logit_attribution(passed, chosen, other)
    rows = table.sort_values("contribution", key=abs, ascending=False).head(most).filter(["component", "contribution"])
    said = passed.next_tokens(1)[0][0] if chosen is None else token_texts(loaded.tokenizer, [chosen])[0]
    about = {"model": model, "answer": said, "against": against or "the mean of all logits"}
    _tell({**about, "logit difference": table.number, "adds up": table.holds}, rows, as_json)


def _tell(about: dict[str, object], table: pd.DataFrame, as_json: bool) -> None:
    if as_json:
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        click.echo(json.dumps({**about, "rows": rows}, default=float))
    else:
        click.echo(", ".join(f"{name}: {value!r}" for name, value in about.items()))
        click.echo(table.to_string(index=False, float_format="{:.4f}".format))
