"""The chapters: texts of questions and exercises (TOML), and the checks of the exercises (``JUDGES``)."""
