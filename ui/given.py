"""What `headlight` tells the server that it starts: the file to open, and where. Visitors open this file and no other."""

import os
import socket
import time
import webbrowser
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Thread

from streamlit import config

from core.whole_files import Version, read_whole, version_of

ADDRESS, BROWSER, FILE = "HEADLIGHT_ADDRESS", "HEADLIGHT_BROWSER", "HEADLIGHT_FILE"
_ANY = ("0.0.0.0", "::")


def file(ending: str = "") -> Path | None:
    """The file or folder to open, if there is one and its name has this ending."""
    path = os.environ.get(FILE, "")
    return Path(path) if path and path.lower().endswith(ending) else None


def contents(path: Path, most: int) -> bytes:
    """What is in the file, at most so many bytes, for all visitors: it is read again only when it has changed. Raises
    InputError (field "file")."""
    return _contents(path, most, version_of(path))


@lru_cache(maxsize=1)
def _contents(path: Path, most: int, _version: Version | None) -> bytes:
    return read_whole(path, most)


def announce() -> None:
    """If `headlight` has started this server: once it listens, say where, and open the browser there."""
    if ADDRESS in os.environ:
        Thread(target=_announce, daemon=True).start()


def _announce() -> None:
    host, port = config.get_option("server.address"), config.get_option("server.port")
    host = "localhost" if host in _ANY else host
    listens = False
    while not listens:
        time.sleep(0.05)
        with suppress(OSError), socket.create_connection((host, port)):
            listens = True
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/{os.environ[ADDRESS]}"
    print(f"Headlight is at {address} (Ctrl+C stops it)", flush=True)
    if os.environ.get(BROWSER) and not webbrowser.open(address):
        print("There is no browser here: open this address where there is one.", flush=True)
