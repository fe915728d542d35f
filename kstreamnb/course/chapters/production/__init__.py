"""Chapters on applications in production."""
