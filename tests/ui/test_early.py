"""What is fetched early are files that Streamlit really has. A server that listens sends small messages without delay."""

import re
import socket

from ui.early import SCRIPTS, early_scripts, send_at_once


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
