"""Compiles the nodes of a task into one Python function."""
