"""An address at which nobody answers."""

import socket

import pytest
import ray

from core import InputError
from core.corpus.running import run
from tests.core.corpus.plain import reader
from tests.core.tiny_models import tiny


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "ray://127.0.0.1:{}", "nonsense::/"])
def test_an_address_that_does_not_answer(address, tmp_path):
    tiny("BERT").save_pretrained(tmp_path / "model")
    reader().save_pretrained(tmp_path / "model")
    (tmp_path / "a.txt").write_text("the cat")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if ray.is_initialized():
        ray.shutdown()
    with pytest.raises(InputError, match="No Ray cluster answers") as found:
        run(str(tmp_path / "model"), str(tmp_path / "a.txt"), str(tmp_path / "run"), address=address.format(port))
    assert found.value.field == "address"
