"""What is fetched early are files that Streamlit has, messages go at once and in order, and a host has room for two."""

import gc
import re
import socket
import weakref

from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.runtime.state.session_state import SessionState
from streamlit.testing.v1 import AppTest

from tests.pages.app import go, new
from tests.source_files import ROOT
from ui import links, serving, settings, state
from ui.serving import IDLE, SCRIPTS, Visitors, answer_in_order, early_scripts, forget_callbacks, send_at_once


def test_the_scripts_are_there_with_all_that_they_import():
    names = early_scripts()
    assert names[0].startswith("PlotlyChart.")
    assert len(names) == len(set(names)) > 10
    for name in names:
        head = (SCRIPTS / name).read_text("utf-8")[:4000]
        assert set(re.findall(r"""from["']\./([\w.-]+\.js)["']""", head)) <= set(names), name


def test_connections_send_small_messages_at_once():
    """As Streamlit makes its own socket, asyncio would leave the delay on: this socket has no protocol either."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert listening.proto == 0
        send_at_once()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def page(arrives):
    import streamlit as st

    def first():
        arrives(2)
        st.session_state["ended"] = True  # here Streamlit looks for newer messages

    st.button("first", on_click=first)
    st.button("second", on_click=arrives, args=(3,))
    st.number_input("number", key="number")


def comes(states=None):
    """A newer message, with these states of widgets."""
    context = get_script_run_ctx()
    assert context is not None
    assert context.script_requests is not None
    newer = RerunData(widget_states=states, page_script_hash=context.page_script_hash)
    context.script_requests.request_rerun(newer)


def test_a_message_waits_for_the_callbacks_of_the_one_before():
    answer_in_order()

    def arrives(number):
        comes(WidgetStates(widgets=[WidgetState(id=app.number_input[0].proto.id, double_value=number)]))

    app = AppTest.from_function(page, args=(arrives,)).run()
    app.number_input[0].set_value(1)
    app.button[0].click()
    app.button[1].click().run()
    assert app.session_state["number"] == 3
    assert "ended" in app.session_state


def test_a_message_waits_until_the_address_is_read(monkeypatch):
    """Otherwise the next run would find a page that was come to, and nothing of what its address asked for."""
    answer_in_order()
    take_in, waiting = links._take_in, [True]
    monkeypatch.setattr(links, "_take_in", lambda *given: (waiting and waiting.pop() and comes(), take_in(*given)))
    app = go(new(), "step_by_step", **{state.SOURCE: "random", state.SEED: "7"})
    assert not waiting
    assert app.session_state[state.ADDRESS] == {state.SOURCE: ["random"], state.SEED: ["7"]}


def test_a_place_is_kept_given_back_and_lost_by_those_who_sleep():
    there, now = {"a", "b", "c", "d"}, 0.0
    host = Visitors(there.__contains__, lambda: now)
    assert [host.admit(one, 2) for one in "abcab"] == [True, True, False, True, True]
    there.discard("a")
    assert [host.admit(one, 2) for one in "cd"] == [True, False]
    now = IDLE
    assert host.admit("c", 2)
    assert host.admit("d", 2)  # in the place of b
    assert [host.admit(one, 2) for one in "bc"] == [False, True]
    assert host.admit("b", None)


def test_a_visitor_who_finds_no_place_is_told_so_and_runs_nothing(monkeypatch):
    monkeypatch.setattr(settings, "current", lambda: settings.Settings(sessions=1))
    monkeypatch.setattr(serving, "_VISITORS", full := Visitors(lambda _: True))
    full.admit("somebody else", 1)
    app = AppTest.from_file(str(ROOT / "ui/shell.py")).run()
    assert not app.exception
    assert [title.value for title in app.title] == ["Headlight is full"]
    assert not app.get("plotly_chart")
    full._is_there = lambda _: False
    app.button[0].click().run()
    assert not app.title or app.title[0].value != "Headlight is full"


def two_pages(seen):
    import streamlit as st

    if st.toggle("other page", key="other"):
        return

    passed = seen.passed()

    def clicked():
        seen.clicks += 1
        assert passed

    st.button("click", on_click=clicked)


def test_what_the_fields_of_an_earlier_page_would_use_goes_with_them(monkeypatch):
    """A click on a head calls what holds its whole pass."""

    class Passed:
        pass

    class Seen:
        clicks = 0

        def passed(self):
            passed = Passed()
            self.last = weakref.ref(passed)
            return passed

    monkeypatch.setattr(SessionState, "_remove_stale_widgets", SessionState._remove_stale_widgets)
    forget_callbacks()
    seen = Seen()
    app = AppTest.from_function(two_pages, args=(seen,)).run()
    app.button[0].click().run()
    assert seen.clicks == 1
    assert seen.last() is not None  # the next click needs it
    app.toggle[0].set_value(True).run()
    gc.collect()
    assert seen.last() is None
    app.toggle[0].set_value(False).run()
    app.button[0].click().run()
    assert seen.clicks == 2
