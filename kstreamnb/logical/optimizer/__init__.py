"""Rewrites of the logical graph, one optimization per function."""
