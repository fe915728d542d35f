"""Checks topologies, samples, settings and directories before an application runs."""
