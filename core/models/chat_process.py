"""A program that fills in a chat template. Python starts this file, which imports jinja2 and nothing of Headlight.

A template is a program by the author of a model. In a process of its own it can be ended whatever it does: the process has
limits of processor time and memory, where the system knows such limits, and its caller waits for a limited time. The template
sees what it would see in transformers (https://huggingface.co/docs/transformers/chat_templating): jinja2's immutable sandbox
with `raise_exception`, `strftime_now`, `tojson`, `generation` and loop controls.

    python -I -S chat_process.py <folders of jinja2>     reads a request as JSON and prints an answer as JSON:
    {"written": text}, {"refused": the template's own message}, or {"failed": the reason}
"""

import json
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any, NoReturn

if __name__ == "__main__":
    sys.path += sys.argv[1:]

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class Refused(TemplateError):
    """The template called raise_exception."""


# --- the names that a template can use


def raise_exception(message: object) -> NoReturn:
    raise Refused(str(message))


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write a value as JSON. jinja2's own filter would escape < and & as in HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Dict:
    """`dict` as a function with `fromkeys`, and nothing else of the class."""

    def __call__(self, *items: Any, **named: Any) -> dict[Any, Any]:
        return dict(*items, **named)

    def fromkeys(self, *keys: Any) -> dict[Any, Any]:
        return dict.fromkeys(*keys)


class OpenNamespace(Namespace):
    """`namespace` without names that begin with _: a template could reach Python's own attributes by them."""

    def __init__(*arguments: Any, **named: Any) -> None:  # a template may name an attribute `self`
        self, *items = arguments
        attributes = dict(*items, **named)
        for name in attributes:
            _refuse_private(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"no name in a namespace may begin with _, as {name!r} does")


class GenerationTag(Extension):
    """The tags {% generation %} ... {% endgeneration %}, which mark a model's own text for training; their content is kept."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_as_it_is"), [], [], body).set_lineno(line)

    def _as_it_is(self, caller: Macro) -> str:
        return caller()


def environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals |= {"dict": Dict(), "namespace": OpenNamespace, "raise_exception": raise_exception}
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


# --- one template


def limit(seconds: int, nbytes: int) -> None:
    """Limit the processor time and the memory of this process, as far as the system knows such limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, nbytes), (resource.RLIMIT_CORE, 0)):
        with suppress(ValueError, OSError):  # macOS knows no limit of memory
            resource.setrlimit(kind, (most, most))


def written(template: str, seen: dict[str, Any], most: int) -> str:
    """Fill in a template. Raises ValueError beyond `most` characters and for half of one, and whatever the template raises."""
    parts, count = [], 0
    for part in environment().from_string(template).generate(seen):
        parts.append(part)
        count += len(part)
        if count > most:
            raise ValueError(f"it writes more than {most:,} characters")
    text = "".join(parts)
    text.encode()
    return text


def answer(request: dict[str, Any]) -> dict[str, str]:
    """What came of a template. Its errors are cut to what is shown of them: longer ones would need too much memory as JSON."""
    try:
        try:
            return {"written": written(request["template"], request["seen"], request["most"])}
        except Refused as error:
            return {"refused": str(error)[: request["shown"]]}
        except TemplateSyntaxError as error:
            return {"failed": f"in line {error.lineno}: {error.message}"[: request["shown"]]}
        except MemoryError:
            raise
        except Exception as error:  # a template may raise anything that Python raises
            return {"failed": (str(error) or type(error).__name__)[: request["shown"]]}
    except MemoryError:  # also of an error that is put into words
        return {"failed": f"it needs more than {request['bytes'] // 10**6} MB of memory"}


if __name__ == "__main__":
    request = json.load(sys.stdin.buffer)
    limit(request["seconds"], request["bytes"])
    print(json.dumps(answer(request)))
