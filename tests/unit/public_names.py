"""All public names: those of the root and of its namespaces."""

from __future__ import annotations

import kstreamnb as ks

NAMESPACES = ("course", "kafka", "monitoring", "notebook", "simulation", "spark", "testing", "widgets")
"""Namespaces whose names are loaded at their first use; `errors` and `samples` are ordinary modules."""


def public_names() -> dict[str, object]:
    """Return every public name with its namespace, such as ``kafka.Admin``, and its value."""
    inner = (*NAMESPACES, "errors", "samples")
    names: dict[str, object] = {name: getattr(ks, name) for name in ks.__all__ if name not in (*inner, "__version__")}
    for namespace in inner:
        module = getattr(ks, namespace)
        names |= {f"{namespace}.{name}": getattr(module, name) for name in module.__all__}
    helpers = {name for name in names if name.startswith("errors.") and not name.endswith("Error")}
    return {name: value for name, value in names.items() if name not in helpers}
