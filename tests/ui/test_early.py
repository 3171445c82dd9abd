"""A server that listens sends small messages without delay."""

import socket

from ui.early import send_at_once


def test_connections_send_small_messages_at_once():
    """As Streamlit makes its own socket, asyncio would leave the delay on: this socket has no protocol either."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert listening.proto == 0
        send_at_once()
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
