"""Chapters on whole applications."""
