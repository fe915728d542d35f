"""The applications of notebooks/applications: their topologies, services and deployment files."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "notebooks" / "applications"
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/topology.py"))
