"""Pages with widgets as any front end shows them, whose commands have no receiver."""

from __future__ import annotations

import base64
import json

from kstreamnb.notebook.widgets.base import FactsWidget, static_text

_OF_IPYWIDGETS = ("layout", "tabbable", "tooltip")


def widget_page(widget: FactsWidget, classes: str = "") -> str:
    """Return a page with a widget; its body has these classes."""
    names = [name for name in widget.keys if not name.startswith("_") and name not in _OF_IPYWIDGETS]
    # A script ends at the first "</script>", wherever that is.
    state = json.dumps({name: getattr(widget, name) for name in names}).replace("<", "\\u003c")
    kind = type(widget).__module__.rpartition(".")[2]
    module = base64.b64encode((static_text("common.js") + static_text(f"{kind}.js")).encode()).decode()
    return (
        f'<body class="{classes}"><style>{static_text("common.css")}</style><div id="here"></div><script type="module">'
        f'const state = {state}, module = await import("data:text/javascript;base64,{module}");'
        "const model = {get: name => state[name], on() {}, off() {}, send() {}};"
        'module.default.render({model, el: document.getElementById("here")});</script></body>'
    )
