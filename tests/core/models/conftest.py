"""The cache of converted models, in a folder of each test's own."""

import pytest


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder, which is not made yet."""
    monkeypatch.setenv("HEADLIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
