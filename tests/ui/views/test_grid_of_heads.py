"""The menu of metrics: in groups, and open to what older links say."""

from itertools import groupby

import pytest

from core.heads.metrics import GROUPS, METRICS
from tests.pages.app import part
from ui import state


def a_menu():
    import streamlit as st

    from core.heads.metrics import METRICS
    from ui import links
    from ui.views.grid_of_heads import metric_menu

    links.read("a page")
    offered = {metric.name: metric for metric in METRICS}
    further = {"pair": "Your choice: From token to token"}
    st.session_state["picked"] = metric_menu("Heads by", offered, "previous", further)
    links.write("a page", st.empty(), is_whole=True)


def opened(**address):
    page = part(a_menu, **address)
    assert not page.warning
    return page


def test_metrics_stand_in_groups():
    options = opened().get_by_key(state.METRIC).options
    groups = [option.partition(": ")[0] for option in options]
    assert [group for group, _ in groupby(groups)] == [*GROUPS, "Your choice"]
    assert {*options} == {*(f"{one.group}: {one.label}" for one in METRICS), "Your choice: From token to token"}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_what_links_of_any_age_say(metric):
    for word in (metric.name, metric.label, f"{metric.group}: {metric.label}"):
        assert opened(metric=word).session_state["picked"] == metric.name
