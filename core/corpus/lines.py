"""The lines of a file as bytes, holding at most a given number of bytes of each in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

BLOCK = 2**13  # bytes that are read at once: a packed file that ends in the middle loses at most these


class Held:
    """Bytes that are collected in pieces. Once there are more than `most`, they are only counted.

    length  of all pieces together
    """

    def __init__(self, most: int) -> None:
        self._most, self._pieces, self.length = most, [], 0

    def add(self, piece: bytes) -> None:
        self.length += len(piece)
        if self.is_too_long:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    @property
    def is_too_long(self) -> bool:
        return self.length > self._most

    def taken(self) -> bytes | int:
        """All bytes, or their number if there were too many; nothing is held afterwards."""
        found = self.length if self.is_too_long else b"".join(self._pieces)
        self._pieces, self.length = [], 0
        return found


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
    held = Held(most)
    for block in blocks(stream):
        *ended, rest = block.split(b"\n")
        for piece in ended:
            held.add(piece + b"\n")
            yield held.taken()
        held.add(rest)
    if held.length:
        yield held.taken()
