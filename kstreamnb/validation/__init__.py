"""Checks of topologies, samples, settings and directories before they run."""
