"""Chapters on time and order."""
