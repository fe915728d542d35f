"""Every error of the package, by kind, and the one form they share.

    KStreamError                          base: something about a topology, its data or its runtime is wrong
    ├── TopologyError(ValueError)         a topology cannot be built, described or started
    ├── ConfigError(ValueError)           a setting, duration, instant or option is not valid
    ├── SerdeError(ValueError)            bytes cannot be read, or a value cannot be written
    ├── ProcessingError                   a user's function or an operator failed on a record
    ├── StateError(LookupError)           a store does not exist, is not connected or was misused
    ├── EngineError(RuntimeError)         base: the runtime (driver, Spark, Kafka) failed or refused
    │   ├── BrokerError                   a broker is unreachable, does not answer in time, or refused a request
    │   │   ├── AccessDeniedError    *    access control or authentication refused the client
    │   │   ├── RecordRefusedError   *    Kafka never accepts this record: too large, invalid time, no key
    │   │   ├── TransactionTimeoutError   a transaction exceeded its timeout; a new one with more time may succeed
    │   │   └── BufferExhaustedError(BufferError)  a producer's buffer stayed full for too long
    │   ├── UnknownTopicError             a topic does not exist, or this user cannot see it
    │   │   └── TopicDeletedError    *    a topic of a running query was deleted
    │   ├── PartitionError           *    a partition does not exist, or their number is impossible
    │   ├── FencedError              *    a newer deployment of the application took over
    │   ├── CheckpointError          *    a checkpoint is missing, damaged, foreign, or older than Kafka
    │   ├── DataLossError            *    records or batches were lost before they were read or published
    │   ├── ApplicationStateError         the call needs an application that is stopped, or one that runs
    │   ├── SinkError                     the sink of a query raised an error
    │   ├── StorageError                  a folder cannot be written: full, read-only, or not permitted
    │   ├── SparkError                    Spark failed: its session, a worker, or a function it cannot run
    │   │   └── JvmGoneError         *    the JVM of a session no longer answers
    │   └── MissingJavaError         *    no suitable Java was found on this machine
    ├── MissingPackageError(ImportError)  a package of an extra is missing or too old
    └── UnknownNameError(AttributeError)  a method or an attribute does not exist, often mistyped

``restartable`` is False for the kinds marked ``*``, which fail again until somebody acts, and True for the others.

An error has one primary line (lower case, one fact, no full stop, the user's words in double quotes).
Detail, hint and location are notes, so that Python and IPython print them under the message. `unknown` makes the
error for a name that does not exist, and `expect_known` raises it. Each kind has a page with its cause, an example
and its remedy: ``error.url``.
"""

from kstreamnb.errors.base import DOCUMENTATION as DOCUMENTATION
from kstreamnb.errors.base import ConfigError as ConfigError
from kstreamnb.errors.base import KStreamError as KStreamError
from kstreamnb.errors.base import MissingPackageError as MissingPackageError
from kstreamnb.errors.base import ProcessingError as ProcessingError
from kstreamnb.errors.base import SerdeError as SerdeError
from kstreamnb.errors.base import StateError as StateError
from kstreamnb.errors.base import TopologyError as TopologyError
from kstreamnb.errors.base import UnknownNameError as UnknownNameError
from kstreamnb.errors.base import extra as extra
from kstreamnb.errors.engine import AccessDeniedError as AccessDeniedError
from kstreamnb.errors.engine import ApplicationStateError as ApplicationStateError
from kstreamnb.errors.engine import BrokerError as BrokerError
from kstreamnb.errors.engine import BufferExhaustedError as BufferExhaustedError
from kstreamnb.errors.engine import CheckpointError as CheckpointError
from kstreamnb.errors.engine import DataLossError as DataLossError
from kstreamnb.errors.engine import EngineError as EngineError
from kstreamnb.errors.engine import FencedError as FencedError
from kstreamnb.errors.engine import JvmGoneError as JvmGoneError
from kstreamnb.errors.engine import MissingJavaError as MissingJavaError
from kstreamnb.errors.engine import PartitionError as PartitionError
from kstreamnb.errors.engine import RecordRefusedError as RecordRefusedError
from kstreamnb.errors.engine import SinkError as SinkError
from kstreamnb.errors.engine import SparkError as SparkError
from kstreamnb.errors.engine import StorageError as StorageError
from kstreamnb.errors.engine import TopicDeletedError as TopicDeletedError
from kstreamnb.errors.engine import TransactionTimeoutError as TransactionTimeoutError
from kstreamnb.errors.engine import UnknownTopicError as UnknownTopicError
from kstreamnb.hints import did_you_mean as did_you_mean
from kstreamnb.hints import existing as existing
from kstreamnb.hints import expect_known as expect_known
from kstreamnb.hints import unknown as unknown

__all__ = [_name for _name, _value in list(globals().items()) if callable(_value)]
for _name in __all__:
    if _name.endswith("Error"):
        globals()[_name].__module__ = __name__  # tracebacks and pickles name the place to import from


def __getattr__(name: str) -> object:
    raise UnknownNameError(__name__, name, () if name.startswith("_") else __all__)  # Python probes those
