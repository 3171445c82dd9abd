"""The lines of a file as bytes, never more of one in memory than is wanted of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

BLOCK = 2**13  # bytes that are read at once: of a packed file that ends in the middle no more than these are lost


class Held:
    """Bytes that are put together. More than `most` are counted, and not kept.

    length  of all that were added
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
        """All of it, or how long it was if that was too long; nothing is held afterwards."""
        found = self.length if self.is_too_long else b"".join(self._pieces)
        self._pieces, self.length = [], 0
        return found


def blocks(stream: IO[bytes] | Any) -> Iterator[bytes]:
    r"""What a stream holds, a piece at a time, with \n for each of \n, \r\n and \r."""
    end = b""  # a \r at the end of a block, to which a \n may belong
    while block := stream.read(BLOCK):
        block = end + block
        end = b"\r" if block.endswith(b"\r") else b""
        yield block.removesuffix(b"\r").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if end:
        yield b"\n"


def lines_of(stream: IO[bytes] | Any, most: int) -> Iterator[bytes | int]:
    r"""Each line with its \n; of one with more than `most` bytes how many it has."""
    held = Held(most)
    for block in blocks(stream):
        *ended, rest = block.split(b"\n")
        for piece in ended:
            held.add(piece + b"\n")
            yield held.taken()
        held.add(rest)
    if held.length:
        yield held.taken()
