"""Messages in a model's chat template, which is filled in by a process of its own (`chat_process`)."""

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..errors import InputError, shortened
from .fields import MAX_CHARACTERS

SECONDS = 2  # of processor time; real templates take 0.2, most of it to start Python
PATIENCE = 20.0  # seconds of waiting, for busy machines and for systems without a limit of processor time
MAX_BYTES = 512 * 10**6  # of memory, where the system knows such a limit
MAX_TEMPLATE = 10**6  # characters; the longest real templates have 50,000
MAX_MESSAGE = 300  # characters of a template's own error message

_PROGRAM = Path(__file__).with_name("chat_process.py")
_NEEDED = ("jinja2", "markupsafe")


def written_message(name: str, tokenizer: PreTrainedTokenizerBase, message: str) -> str:
    """Write a conversation as one text: this message, then the beginning of the model's answer.

    name  the model's name, for error messages

    Raises InputError (field "chat") if the template refuses the message, fails, or takes too much time or memory, and if this
    system cannot start a process.
    """
    try:
        template: object = tokenizer.get_chat_template()
    except ValueError:  # several templates, none of them the default
        raise _failed(name, "there are several and none is called default") from None
    return filled_in(name, tokenizer, template, message)


def filled_in(
    name: str, tokenizer: PreTrainedTokenizerBase, template: object, content: str | list[dict[str, str]]
) -> str:
    """Fill in a template, as `written_message` does. content: the message, or its parts by type, "image" and "text"."""
    if not isinstance(template, str):
        raise _failed(name, "it is not a text")
    if len(template) > MAX_TEMPLATE:
        raise _failed(name, f"it has {len(template):,} characters; at most {MAX_TEMPLATE:,} are read")
    request = {
        "template": template,
        "seen": {
            **tokenizer.special_tokens_map,
            "messages": [{"role": "user", "content": content}],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        },
        "most": MAX_CHARACTERS,
        "shown": MAX_MESSAGE + 1,  # one more shows that it is cut
        "seconds": SECONDS,
        "bytes": MAX_BYTES,
    }
    answer = _answer(name, request)
    if "refused" in answer:
        raise _error(f"The chat template of {name} refuses this text: {shortened(answer['refused'], MAX_MESSAGE)}")
    if "failed" in answer:
        raise _failed(name, shortened(answer["failed"], MAX_MESSAGE))
    return answer["written"]


def _answer(name: str, request: dict[str, Any]) -> dict[str, str]:
    no_process = _error(f"The chat template of {name} is run in a process of its own, and this system starts none")
    if getattr(sys, "frozen", False) or not sys.executable:  # Python is part of another program
        raise no_process
    # With -I and -S Python searches no folders of packages by itself.
    folders = [str(Path(spec.origin).parent.parent) for spec in map(find_spec, _NEEDED) if spec and spec.origin]
    command = [sys.executable, "-I", "-S", str(_PROGRAM), *folders]
    try:
        ended = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise _failed(name, f"it did not end within {PATIENCE:.0f} seconds") from None
    except OSError:
        raise no_process from None
    try:
        return json.loads(ended.stdout)
    except ValueError:
        limits = [getattr(signal, limit, None) for limit in ("SIGXCPU", "SIGKILL")]
        by_limit = f"it takes more than {SECONDS} seconds of processor time, or too much memory"
        why = by_limit if -ended.returncode in limits else "it breaks the process that runs it"
        raise _failed(name, why) from None


def _failed(name: str, why: str) -> InputError:
    return _error(f"The chat template of {name} fails: {why.rstrip('. ')}")


def _error(what: str) -> InputError:
    return InputError(f"{what}. Let it continue the text as it is.", field="chat")
