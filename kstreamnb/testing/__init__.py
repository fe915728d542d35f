"""Tools for testing topologies: assertions, diffs, checks, race detection, parity of the engines, fixtures.

The names are loaded lazily. Fixtures for pytest are in `kstreamnb.testing.fixtures`.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "notebook")
