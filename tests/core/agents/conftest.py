import pytest

from core.agents.calling import Calls
from core.agents.host import Host, Limits


@pytest.fixture(scope="session")
def calls() -> Calls:
    """The calls of a host as it is by default, with the models that it has loaded."""
    return Calls(Host(Limits()))
