"""The chapters by part of the course: texts (TOML), and the checks of exercises that need code (``JUDGES``)."""
