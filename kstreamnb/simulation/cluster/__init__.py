"""Applications as they run in production: topics with transactions, and the loop that polls, processes and commits.

The test driver answers "what comes out"; this one answers "when can it be seen, and what remains after a crash".
"""

from kstreamnb.simulation.cluster.application import Application
from kstreamnb.simulation.cluster.cluster_driver import ClusterDriver
from kstreamnb.simulation.cluster.events import ThreadEvent, ThreadEvents
from kstreamnb.testdriver.execution.state_consistency import StateCheck

__all__ = ["Application", "ClusterDriver", "StateCheck", "ThreadEvent", "ThreadEvents"]
