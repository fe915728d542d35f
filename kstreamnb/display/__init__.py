"""Pictures: a frozen model becomes a view-model, and that becomes text, Mermaid, DOT, SVG or HTML.

Pure functions independent of notebooks: `mime.mimebundle` returns what a notebook front end requests from an object.
"""

from kstreamnb.display import charts, offset_picture, runs

__all__ = ["charts", "offset_picture", "runs"]
"""The modules that register how models are displayed."""
