"""Simulates applications as they run in production: transactional topics, and threads that poll, process and commit.

The test driver shows the results; this driver shows when they become visible, and what remains after a crash.
"""

from kstreamnb.simulation.cluster.application import Application
from kstreamnb.simulation.cluster.cluster_driver import ClusterDriver
from kstreamnb.simulation.cluster.events import ThreadEvent, ThreadEvents
from kstreamnb.testdriver.execution.state_consistency import StateCheck

__all__ = ["Application", "ClusterDriver", "StateCheck", "ThreadEvent", "ThreadEvents"]
