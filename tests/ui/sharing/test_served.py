"""Files that a browser fetches to save a picture: those of npm, unchanged, and each with its licence."""

import hashlib
import re
from pathlib import Path

import pytest

from ui.sharing.served import JSPDF, SVG2PDF


# Otherwise: npm pack jspdf@<version> or svg2pdf.js@<version>, and copy its dist/*.umd.min.js and LICENSE.
@pytest.mark.parametrize(
    ("file", "version", "digest"),
    [
        (JSPDF, "4.2.1", "e6551fcdc32f09d6853b2c5126d18d01d9447e0da618a41a11ebeee0f6c20d54"),
        (SVG2PDF, "2.8.1", "2f10c0d16959e9a0c4cfd8605cfce0830ddc384337f74fa0351a6eff1c1efb8b"),
    ],
)
def test_a_library_is_the_file_of_npm_in_the_version_that_its_name_says(file: Path, version: str, digest: str) -> None:
    """Only this test finds a library that somebody has changed, or replaced without giving it another address."""
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest
    assert version in file.name
    assert "Permission is hereby granted" in file.with_name(f"{file.name.split('-')[0]}.LICENSE").read_text("utf-8")


def test_jspdf_says_the_version_of_its_name() -> None:
    (version,) = re.findall(r"^ \* Version ([\d.]+) Built on", JSPDF.read_text("utf-8")[:300], re.MULTILINE)
    assert JSPDF.name == f"jspdf-{version}.min.js"
