"""Names of widgets for notebooks."""

from kstreamnb.notebook.opening import browse as browse
from kstreamnb.notebook.opening import edit as edit
from kstreamnb.notebook.opening import explorer as explorer
from kstreamnb.notebook.opening import panel as panel
from kstreamnb.notebook.opening import stepper as stepper
