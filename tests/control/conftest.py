"""Both engines for the tests beside this."""

from tests.storage.engines import place
from tests.storage.postgres import postgres

__all__ = ["place", "postgres"]
