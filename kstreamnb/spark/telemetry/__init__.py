"""Metrics and logs of running queries."""
