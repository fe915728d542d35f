"""Names of the notebook layer."""

from kstreamnb.notebook.script_export import export as export
