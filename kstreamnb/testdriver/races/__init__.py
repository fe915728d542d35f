"""Searches for topologies whose result depends on the order of processing."""
