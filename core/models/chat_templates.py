"""A message written down as a model's chat template has it: in a process of its own, which can be ended (`chat_process`)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..errors import InputError, shortened
from .texts import MAX_CHARACTERS

SECONDS = 2  # of processor time; one that is there takes a tenth, nearly all of it to start
PATIENCE = 20.0  # seconds by the clock, where the machine is busy, or the system knows no limit of processor time
MAX_BYTES = 512 * 10**6  # of memory, where the system knows such a limit
MAX_TEMPLATE = 10**6  # characters; the longest that are there have 50,000
SAID = 300  # characters of what a template says

_PROGRAM = Path(__file__).with_name("chat_process.py")
_NEEDED = ("jinja2", "markupsafe")


def written_message(name: str, tokenizer: PreTrainedTokenizerBase, message: str) -> str:
    """The conversation that begins with this message and in which the model's answer comes next, as one text.

    name  the model's, for what is said

    Raises InputError (field "chat") where the template refuses the message, fails, or takes too much time or memory, and
    where this system starts no further process.
    """
    asked = {
        "template": _template(name, tokenizer),
        "seen": {
            **tokenizer.special_tokens_map,
            "messages": [{"role": "user", "content": message}],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        },
        "most": MAX_CHARACTERS,
        "seconds": SECONDS,
        "bytes": MAX_BYTES,
    }
    answer = _answer(name, asked)
    if "refused" in answer:
        raise _error(f"The chat template of {name} refuses this text: {shortened(answer['refused'], SAID)}")
    if "failed" in answer:
        raise _failed(name, shortened(answer["failed"], SAID))
    return answer["written"]


def _template(name: str, tokenizer: PreTrainedTokenizerBase) -> str:
    try:
        template: object = tokenizer.get_chat_template()
    except ValueError:  # several, none of which is the default one
        raise _failed(name, "there are several and none is called default") from None
    if not isinstance(template, str):
        raise _failed(name, "it is no text")
    if len(template) > MAX_TEMPLATE:
        raise _failed(name, f"it has {len(template):,} characters; at most {MAX_TEMPLATE:,} are read")
    return template


def _answer(name: str, asked: dict[str, Any]) -> dict[str, str]:
    """What the process answers."""
    if getattr(sys, "frozen", False) or not sys.executable:  # then Python is no program by itself
        raise _no_process(name)
    command = [sys.executable, "-I", "-S", str(_PROGRAM), *_folders()]
    try:
        ended = subprocess.run(command, input=json.dumps(asked).encode(), capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise _failed(name, f"it did not end within {PATIENCE:.0f} seconds") from None
    except OSError:
        raise _no_process(name) from None
    try:
        return json.loads(ended.stdout)
    except ValueError:
        raise _failed(name, _why(ended.returncode)) from None


def _folders() -> list[str]:
    """Where the packages lie that the process needs: it is told, since it looks nowhere by itself."""
    specs = map(find_spec, _NEEDED)
    return [str(Path(spec.origin).parent.parent) for spec in specs if spec is not None and spec.origin is not None]


def _why(ended: int) -> str:
    """Of a process that was ended before it could answer."""
    if -ended in [getattr(signal, name, None) for name in ("SIGXCPU", "SIGKILL")]:
        return f"it takes more than {SECONDS} seconds of processor time, or too much memory"
    return "it breaks the process that runs it"


def _failed(name: str, why: str) -> InputError:
    return _error(f"The chat template of {name} fails: {why.rstrip('. ')}")


def _no_process(name: str) -> InputError:
    return _error(f"The chat template of {name} is run in a process of its own, and this system starts none")


def _error(what: str) -> InputError:
    return InputError(f"{what}. Let it continue the text as it is.", field="chat")
