"""What somebody might type, link to or upload who wants to break the app: one collection for every way in.

Whatever would run a script, or fetch something, sets `window.headlightRan` or asks for evil.example.
"""

from __future__ import annotations

import io
import json
import signal
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

RAN = "headlightRan"
_SCRIPT = f"window.{RAN}=1"

TEXTS = {
    "script": f"<script>{_SCRIPT}</script>",
    "image": f'<img src=x onerror="{_SCRIPT}"><img src="https://evil.example/a.png">',
    "drawing": f"<svg/onload={_SCRIPT}><style>*{{display:none}}</style>",
    "frame": f'<iframe srcdoc="<script>parent.{RAN}=1</script>"></iframe>',
    "out of an attribute": f"\"'><b autofocus tabindex=1 onfocus={_SCRIPT}>",
    "Plotly's markup": f'<a href="javascript:{_SCRIPT}">a</a><br><sub>b</sub>%{{customdata}}%{{x:.3f}}',
    "Markdown links": f"[a](javascript:{_SCRIPT}) ![b](https://evil.example/b.png) <https://evil.example> https://evil.example",
    "Markdown": "# a\n* b\n| c | d |\n| - | - |\n```\n~~e~~ **f** :red[g] :material/home: :smile: [h][i]\n\n[i]: https://evil.example",
    "LaTeX": r"$\href{javascript:alert(1)}{x}$ $$\def\a{\a\a}\a$$ \(\unknown\) $",
    "templates": "{{7*7}} ${7*7} #{7*7} <%= 7*7 %> {% raw %} {0.__class__} %(a)s %n",
    "right to left": "\u202eevil\u202c שלום \u2067עולם\u2069 مرحبا ab\u200f",
    "zero width": "a\u200bb\u200c\u200d\u2060\ufeffc\u00ad\u034f",
    "NUL and controls": "a\x00b\x01\x07\x08\x0b\x0c\x1b[31m\x7f\x85\u2028\u2029c",
    "joined emoji": "👩‍👩‍👧‍👦🏳️‍🌈👍🏿🇩🇪🧑🏽‍🚀" * 3,
    "stacked marks": "Z" + "\u0301\u0327\u0489" * 60 + "a",
    "outside the first plane": "𝔘𝔫𝔦 𐍈 \U0010ffff \ue000 \ufffe",
    "one long word": "supercalifragilistic" * 60,
    "many short words": "a " * 700,
    "only blanks": " \t\n\r\u00a0\u3000",
    "only special tokens": "[CLS][SEP][MASK][PAD]<|im_start|><|endoftext|><s></s>",
    "a path": "../../../../etc/passwd C:\\Windows\\win.ini \\\\host\\share file:///etc/passwd",
    "a database": "'; DROP TABLE heads; -- \" OR 1=1",
    "numbers": "NaN -Infinity 1e309 0x1F ٣ ½ 1_000",
    "JSON": '{"__proto__": {"a": 1}, "$ref": "#"} [[[[[[',
    "the separators of links": "a&b=c#d?e+f%20%zz;g",
}
MARKUP = ("script", "image", "drawing", "frame", "out of an attribute", "Plotly's markup", "Markdown links", "Markdown")

LONG = 10_000  # characters
# What a long text is made of. A parser that goes back over what it has read takes the square or the cube of its length.
AGAIN = (
    *(" ", "\t", "\n", "\u00a0", "a", "ab ", "A1-", "9", "0.", "1 ", "1,", "1-2,", "1>2 ", "1>2=.1 ", "at ", " over "),
    *".-,;:=><&+_/@$*",
    *("<b>", "<br>", "&#9", "%3", "://", "www."),
    *("#", "`", "'", '"', '\\"', "\\", "\\u00", "(", "((a", "[", "{", "{{", "{%", "[UNK]", "##a", "<|im_start|>", "w'"),
    *("\u0301", "\u0301\u0327", "😀\u200d", "🇩", "\u202e", "\x00", "東", "İ", "ﷺ"),
)


def long_texts(*beginnings: str) -> Iterator[str]:
    """LONG characters each, after every beginning: one thing again and again, with an end that comes as a surprise."""
    for beginning in beginnings or ("",):
        for again in AGAIN:
            half = again * (LONG // 2 // len(again))
            yield f"{beginning}{half}at{half}!"
            yield f'{beginning}{half}{half}"x'


class TooSlow(BaseException):
    """No Exception, which a parser might catch."""


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Raises TooSlow once this process has computed for so long, also within a regular expression. Main thread only."""

    def ring(*_: object) -> None:
        raise TooSlow(f"more than {seconds} s of processor time")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# Values in an address, as they stand there.
VALUES = {
    "nothing": "",
    "a huge number": "9" * 400,
    "more digits than Python reads": "9" * 5000,
    "beyond floats": "1e999",
    "not a number": "nan",
    "below zero": "-1",
    "a fraction": "0.5",
    "other digits": "%D9%A3",
    "broken percents": "%zz%%%E0%80%FF",
    "half a character": "%ED%A0%80",
    "NUL": "%00",
    "ten kilobytes": "x" * 10_000,
    "markup": "%3Cimg%20src%3Dx%20onerror%3D%22window.headlightRan%3D1%22%3E%5Ba%5D(javascript:alert(1))",
    "JSON": "%5B%5B%7B%22__proto__%22:1%7D%5D%5D",
    "a path": "..%2F..%2F..%2Fetc%2Fpasswd",
    "dots and hyphens": "1.2.3-4--5",
}


def files() -> dict[str, bytes]:
    """Contents that nobody means well with, for any field that takes a file."""
    good = _npz(query=np.eye(2), key=np.eye(2), value=np.eye(2))
    return {
        "empty": b"",
        "noise": bytes(range(256)) * 40,
        "text": b"hello",
        "markup": TEXTS["image"].encode(),
        "a page as a picture": b"<!doctype html><script>alert(1)</script>",
        "half of an NPZ": good[: len(good) // 2],
        "a good NPZ with bytes before": b"GIF89a" + good,
        "an NPZ without arrays": _zip({"readme.txt": b"no"}),
        "an NPZ with paths": _zip({"../../query.npy": _npy(np.eye(2)), "/etc/key.npy": _npy(np.eye(2))}),
        "an NPZ of a gigabyte": _bomb(2**30),
        "an NPZ in an NPZ": _zip({"query.npy": good, "key.npy": good, "value.npy": good}),
        "an NPZ that does not fit": _npz(query=np.ones((2, 3)), key=np.ones((2, 4)), value=np.ones((5, 1))),
        "an NPZ of NaN": _npz(query=np.full((2, 2), np.nan), key=np.eye(2), value=np.eye(2)),
        "weights of markup": _npz(
            attentions=np.full((1, 2, 2, 2), 0.5), tokens=np.array([TEXTS["image"], "</script>"])
        ),
        "weights of NaN": _npz(attentions=np.full((1, 2, 2, 2), np.nan)),
        "a pickle in an NPY": _npy(np.array([{"a": print}], dtype=object), allow_pickle=True),
        "a pickle": b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
        "an NPY that promises more": _npy_head("<f8", (2**31, 2**31)) + b"\0" * 64,
        "an NPY with a lying header": b"\x93NUMPY\x01\x00\xff\xff" + b"{" * 200,
        "an NPY of strings": _npy(np.array([["<b>", "x"]])),
        "an NPY of complex numbers": _npy(np.ones((2, 2), complex)),
        "an NPY of four axes": _npy(np.ones((2, 2, 2, 2))),
        "a table of NaN": b"nan, inf\n-inf, 1e400",
        "a table of objects": b'{"a": 1}, [2]\n=cmd|calc, @SUM(1)',
        "a table with ragged rows": b"1,2\n3\n4,5,6",
        "a table of one line": b"1," * 500_000,
        "a table in another encoding": "1,2\n3,4é".encode("utf-16"),
        "a picture that claims to be huge": png(60_000, 60_000),
        "a picture cut off": png(8, 8)[:40],
        "JSON without an end": b"[" * 100_000,
        "JSON of the wrong kind": b'{"version": "1e999", "heads": {"__proto__": []}, "figures": "<script>"}',
    }


def lying_weights(good: bytes) -> dict[str, bytes]:
    """A safetensors file as it should be -> files that say of themselves what is not so."""
    (length,) = struct.unpack("<Q", good[:8])
    head, body = json.loads(good[8 : 8 + length]), good[8 + length :]
    first = next(name for name in head if name != "__metadata__")

    def told(**changes: object) -> bytes:
        said = json.dumps(head | {first: head[first] | changes}).encode()
        return struct.pack("<Q", len(said)) + said + body

    return {
        "empty": b"",
        "a header longer than the file": struct.pack("<Q", 2**62) + good[8:],
        "a header of no length": struct.pack("<Q", 0) + good[8:],
        "a header that is no JSON": struct.pack("<Q", 8) + b"\xff" * 8,
        "a header of nested lists": struct.pack("<Q", 50_000) + b"[" * 50_000,
        "numbers behind the end": told(data_offsets=[0, 2**40]),
        "numbers before the start": told(data_offsets=[-8, 8]),
        "numbers that are not there": good[: 8 + length + len(body) // 2],
        "a shape that does not fit": told(shape=[3, 5, 7]),
        "a shape of a million layers": told(shape=[2**31, 2**31]),
        "a dtype that does not exist": told(dtype="<script>"),
        "a pickle": b"\x80\x04\x95" + good,
    }


def write_lying_models(good: Path, folder: Path) -> dict[str, Path]:
    """Copies of a small model's folder, each with other weights."""
    made = {}
    for number, (name, weights) in enumerate(lying_weights((good / "model.safetensors").read_bytes()).items()):
        made[name] = folder / str(number)
        made[name].mkdir()
        for file in good.iterdir():
            (made[name] / file.name).write_bytes(weights if file.name == "model.safetensors" else file.read_bytes())
    return made


def _npy(array: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def _npy_head(dtype: str, shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    return _zip({f"{name}.npy": _npy(array) for name, array in arrays.items()})


def _bomb(size: int) -> bytes:
    """An NPZ of a few kilobytes whose query is an honest array of so many bytes."""
    file, piece = io.BytesIO(), b"\0" * 2**24
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("query.npy", "w") as member:
        member.write(_npy_head("|u1", (size // 1024, 1024)))
        for _ in range(size // len(piece)):
            member.write(piece)
    return file.getvalue()


def _zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    """A picture that claims this size and holds one row."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 25)) + chunk(b"IEND", b"")
