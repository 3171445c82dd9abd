import pytest

from core.agents.host import Host, Limits
from core.agents.serving import Calls


@pytest.fixture(scope="session")
def calls():
    """The calls of a host as it is by default, with the models that it has loaded."""
    return Calls(Host(Limits()))
