"""What the browser sends is answered in the order in which it was sent.

Streamlit's "fast reruns" are switched off for that (.streamlit/config.toml): with them, each message starts another thread on
the same session, which can overtake the one before. Without them one thread answers all messages, at its next stop point.
"""

from __future__ import annotations

from threading import local
from typing import Any

from streamlit.runtime.scriptrunner.script_runner import ScriptRunner
from streamlit.runtime.state.safe_session_state import SafeSessionState

_mine = local()
_begin = SafeSessionState.on_script_will_rerun
_look = ScriptRunner._maybe_handle_execution_control_request


def answer_in_order() -> None:
    """Let a message wait until the callbacks of the one before have ended. Call it before the first visitor.

    Streamlit 1.67 looks for newer messages whenever a callback reads the session's state. One that has come ends the callback,
    and is answered after the others: by then a third may have come, and Streamlit takes the second for the newer of both.
    """

    def begin(self: SafeSessionState, *args: Any, **options: Any) -> None:
        _mine.is_in_callbacks = True
        try:
            _begin(self, *args, **options)
        finally:
            _mine.is_in_callbacks = False

    def look(self: ScriptRunner) -> None:
        if not getattr(_mine, "is_in_callbacks", False):
            _look(self)

    SafeSessionState.on_script_will_rerun = begin
    ScriptRunner._maybe_handle_execution_control_request = look
