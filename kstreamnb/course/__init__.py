"""The course: questions to predict, exercises that check themselves, and pictures that open the chapters.

The names are loaded at their first use.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "notebook")
