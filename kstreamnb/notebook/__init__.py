"""Everything that knows IPython: the extension, cell-aware builders, magics, widgets, regression notebooks."""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "notebook")
