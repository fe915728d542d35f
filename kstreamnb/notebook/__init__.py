"""Everything that knows IPython: the extension, cell-aware builders, magics, widgets, regression notebooks."""
