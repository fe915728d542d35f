"""Simulators: an application cluster, a consumer group and a log."""
