"""The lines of a file as bytes, holding at most a given number of bytes of each in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, AnyStr, Generic

BLOCK = 2**13  # bytes that are read at once: a packed file that ends in the middle loses at most these


class Held(Generic[AnyStr]):
    """A text or bytes that are collected in pieces, at first none. Once there are more than `most`, they are only counted."""

    def __init__(self, most: int, nothing: AnyStr) -> None:
        self._most, self._nothing = most, nothing
        self._pieces: list[AnyStr] = []
        self.length = 0

    def add(self, piece: AnyStr) -> None:
        self.length += len(piece)
        if self.is_too_long:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    @property
    def is_too_long(self) -> bool:
        return self.length > self._most

    def pop(self) -> AnyStr | int:
        """All pieces together, or their length if there were too many; nothing is held afterwards."""
        whole = self.length if self.is_too_long else self._nothing.join(self._pieces)  # type: ignore[arg-type]
        self._pieces, self.length = [], 0
        return whole


def blocks(stream: IO[bytes] | Any) -> Iterator[bytes]:
    r"""The contents of a stream in blocks, with \n for each of \n, \r\n and \r."""
    end = b""  # a \r at the end of a block, to which a \n may belong
    while block := stream.read(BLOCK):
        block = end + block
        end = b"\r" if block.endswith(b"\r") else b""
        yield block.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if end:
        yield b"\n"


def lines_of(stream: IO[bytes] | Any, most: int) -> Iterator[bytes | int]:
    r"""Each line with its \n; for a line of more than `most` bytes, how many it has."""
    held = Held(most, b"")
    for block in blocks(stream):
        *ended, rest = block.split(b"\n")
        for piece in ended:
            held.add(piece + b"\n")
            yield held.pop()
        held.add(rest)
    if held.length:
        yield held.pop()
