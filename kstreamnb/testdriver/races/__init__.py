"""Finds results that depend on the processing order."""
