"""Replays of recorded runs: navigation, queries, previews and explanations."""
