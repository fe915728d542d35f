"""In these tests every driver compares its stores with their changelogs after each call."""

from tests.verified import stores_are_what_their_changelogs_make_of_them

__all__ = ["stores_are_what_their_changelogs_make_of_them"]
