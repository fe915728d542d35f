"""Derives snapshots, differences, provenance and node flow from a recorded run."""
