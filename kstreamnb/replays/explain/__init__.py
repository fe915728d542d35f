"""Explains drops, joins, partitions, outputs and windows of a recorded run."""
