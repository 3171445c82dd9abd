"""Files that nobody means well with, for every field and folder that takes one."""

import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np

from tests.hostile import TEXTS, png


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
