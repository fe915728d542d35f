"""Widgets: look around in a graph, step through a replay, browse stores, edit samples, watch deployments."""
