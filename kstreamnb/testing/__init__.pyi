"""Names for tests of topologies."""

from kstreamnb.display.diff import TopologyDiff as TopologyDiff
from kstreamnb.testdriver.mock_processor_context import MockProcessorContext as MockProcessorContext
from kstreamnb.testdriver.races.race_detector import RaceReport as RaceReport
from kstreamnb.testdriver.races.race_detector import find_races as find_races
from kstreamnb.testing.assertions import assert_outputs_equal as assert_outputs_equal
from kstreamnb.testing.assertions import assert_topology_equal as assert_topology_equal
from kstreamnb.testing.assertions import diff as diff
from kstreamnb.testing.assertions import nbval_sanitizers as nbval_sanitizers
from kstreamnb.testing.strategies import Counterexample as Counterexample
from kstreamnb.testing.strategies import counterexample as counterexample
from kstreamnb.testing.strategies import samples as samples
from kstreamnb.tools.benchmark import Benchmark as Benchmark
from kstreamnb.tools.benchmark import benchmark as benchmark
from kstreamnb.tools.parity import Parity as Parity
from kstreamnb.tools.parity import parity as parity
from kstreamnb.tools.parity import verify_state as verify_state
from kstreamnb.validation.preflight import check as check
from kstreamnb.validation.preflight import check_partitions as check_partitions
