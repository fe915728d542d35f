"""Chapters on streams and tables."""
