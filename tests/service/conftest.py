import pytest
from services import SEARCH, serving


@pytest.fixture(scope="session")
def service(model_dir, tmp_path_factory):
    """A service with a short maximum length and a small queue."""
    limits = ("--max-length", "200", "--max-queued", "300")
    search = (f"--{name}={value}" for name, value in SEARCH.items())
    with serving(model_dir, tmp_path_factory.mktemp("serve"), *limits, *search) as running:
        yield running
