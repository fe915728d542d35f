"""Names of the notebook layer."""

from kstreamnb.notebook.export import export as export
