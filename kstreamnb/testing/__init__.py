"""Tests of topologies: assertions, differences, checks, races, parity of the engines, fixtures.

The names are loaded at their first use. Fixtures for pytest are in `kstreamnb.testing.fixtures`.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "notebook")
