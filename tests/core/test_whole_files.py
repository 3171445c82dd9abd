"""Whatever somebody names is read as a whole or refused in words, without waiting and without reading more than allowed."""

import os
import socket

import pytest

from core.whole_files import read_whole, version_of
from tests.refusals import refused


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "^absent cannot be read: No such file or directory"),
        ("folder", "^folder cannot be read: Is a directory"),
        ("pipe", "^pipe is a pipe or a device. Give a regular file"),
        ("zero", "^zero is a pipe or a device"),
        ("socket", "^socket cannot be read: "),
        ("large", r"^large has 1,099,511\.6 MB; at most 0 MB are read"),
        ("grows", "^grows has 0.0 MB; at most 0 MB are read"),  # Linux says that it is empty
        ("loop", "^loop cannot be read: Too many levels"),
        ("x" * 300, "^x{59}… cannot be read: File name too long"),
        ("two\nlines\udcff", r"^two\\nlines\\udcff cannot be read"),
        ("half\0", r"^half\\x00 cannot be read: embedded null byte"),
    ],
)
def test_what_cannot_be_read_is_said(name, words, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "grows").symlink_to("/proc/self/maps")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 2**40)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with refused("claims", words):
            read_whole(tmp_path / name, 3, field="claims")


def test_a_file_of_as_many_bytes_is_read_and_has_another_version_once_it_changes(tmp_path):
    file = tmp_path / "file"
    assert version_of(file) is None
    file.write_bytes(b"abc")
    before = version_of(file)
    assert (read_whole(file, 3), version_of(file)) == (b"abc", before)
    file.write_bytes(b"ab")
    assert version_of(file) != before
