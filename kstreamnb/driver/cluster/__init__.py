"""Applications as they run in production: topics with transactions, and the loop that polls, processes and commits.

The test driver answers "what comes out"; this one answers "when can it be seen, and what remains after a crash".
"""

from kstreamnb.driver.cluster.application import Application
from kstreamnb.driver.cluster.cluster_driver import ClusterDriver
from kstreamnb.driver.cluster.loop_events import LoopEvent, LoopEvents
from kstreamnb.driver.state_check import StateCheck

__all__ = ["Application", "ClusterDriver", "LoopEvent", "LoopEvents", "StateCheck"]
