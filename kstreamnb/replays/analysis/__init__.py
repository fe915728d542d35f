"""Derives snapshots, differences, provenance and flows from a recorded run."""
