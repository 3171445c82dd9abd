"""Messages that come while the callbacks of an earlier one run."""

from __future__ import annotations

from streamlit.proto.WidgetStates_pb2 import WidgetState, WidgetStates
from streamlit.runtime.scriptrunner import RerunData, get_script_run_ctx
from streamlit.testing.v1 import AppTest

from ui.in_order import answer_in_order


def page(arrives):
    import streamlit as st

    def first():
        arrives(2)
        st.session_state["ended"] = True  # here Streamlit looks for newer messages

    st.button("first", on_click=first)
    st.button("second", on_click=arrives, args=(3,))
    st.number_input("number", key="number")


def test_a_message_waits_for_the_callbacks_of_the_one_before():
    answer_in_order()

    def arrives(number: float) -> None:
        states = WidgetStates(widgets=[WidgetState(id=app.number_input[0].proto.id, double_value=number)])
        context = get_script_run_ctx()
        assert context is not None
        assert context.script_requests is not None
        context.script_requests.request_rerun(
            RerunData(widget_states=states, page_script_hash=context.page_script_hash)
        )

    app = AppTest.from_function(page, args=(arrives,)).run()
    app.number_input[0].set_value(1)
    app.button[0].click()
    app.button[1].click().run()
    assert app.session_state["number"] == 3
    assert "ended" in app.session_state
