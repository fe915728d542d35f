"""The errors of the runtime: brokers, topics, checkpoints, sinks, Spark and Java."""

from __future__ import annotations

from typing import ClassVar

from kstreamnb.errors.base import KStreamError


class EngineError(KStreamError, RuntimeError):
    """The runtime around the tasks (driver, Spark, Kafka) failed or refused a request.

    ``restartable`` tells whether a restart may help; uncaught exception handlers are not asked if it is False.

    Cause: a request that this engine cannot serve in its state. The kinds below this one name what failed.

    Remedy: follow the hint. To react to all failures of the runtime in one place, catch this kind.

    Example:
        >>> from kstreamnb import Sample, Topology, replay
        >>> run = replay(Topology().add_source("orders", "orders"), Sample.from_records([("orders", 0, 0, 0, "a", 1)]))
        >>> try:
        ...     run.at(99)
        ... except EngineError as error:
        ...     print(error)
        step must be from 0, the beginning, to 1, got 99
    """

    restartable: ClassVar[bool] = True


class BrokerError(EngineError):
    """A broker is unreachable, does not answer in time, or refused a request.

    Cause: the address or the port is wrong, the broker is down, or `security.protocol` does not fit its listener:
    brokers close connections from clients that fail to authenticate.

    Remedy: start the broker or correct `bootstrap_servers`; `ks.kafka.local_broker()` starts one on this machine.

    Example:
        >>> from kstreamnb.kafka import Admin
        >>> try:
        ...     Admin("127.0.0.1:9").topics()
        ... except BrokerError as error:
        ...     print(error)
        listing topics failed at "127.0.0.1:9"
    """


class AccessDeniedError(BrokerError):
    """Access control or authentication refused the client.

    Cause: the user is not permitted to use a topic, a group or a transactional id, or the password is wrong.

    Remedy: grant the permission that the message names, then deploy again; the page Recipes lists those that a
    deployment needs.

    Example:
        >>> issubclass(AccessDeniedError, BrokerError), AccessDeniedError.restartable
        (True, False)
    """

    restartable = False


class RecordRefusedError(BrokerError):
    """Kafka never accepts this record: it is too large, its time is out of range, or its topic needs a key.

    Cause: the record exceeds `max.request.size` or `max.message.bytes`, its timestamp is outside the limits of the
    topic, or it has no key and the topic is compacted.

    Remedy: write less into one record, raise the limits of producer and topic, or set
    `production.exception.handler` to "continue" and name a dead-letter topic.

    Example:
        >>> from kstreamnb import StreamsBuilder, TopologyTestDriver
        >>> builder = StreamsBuilder("copy")
        >>> builder.stream("pages").to("copies")
        >>> driver = TopologyTestDriver(builder.build(), {"max.request.size": 100})
        >>> try:
        ...     driver.create_input_topic("pages").pipe_input("home", "x" * 200, at=0)
        ... except ProcessingError as error:
        ...     print(type(error.__cause__).__name__, error.__cause__)
        RecordRefusedError a record for topic "copies" has 292 bytes, max.request.size is 100
    """

    restartable = False


class TransactionTimeoutError(BrokerError):
    """A transaction outlived ``transaction.timeout.ms``, and Kafka aborted it.

    Cause: a batch takes longer than the timeout, or the process was suspended in the middle of it.

    Remedy: usually none: the query opens the next transaction with more time and publishes the batch once. If it
    repeats, lower `max_records` of `ks.deploy`, or raise `transaction.timeout.ms` up to the broker's
    `transaction.max.timeout.ms`.

    Example:
        >>> TransactionTimeoutError.restartable
        True
    """


class BufferExhaustedError(BrokerError, BufferError):
    """A producer's buffer stayed full for longer than ``max_block``.

    Cause: records are sent faster than the broker accepts them, or the broker is away.

    Remedy: send more slowly, or raise `max_block` or the buffer (`buffer.memory`, in a simulation `buffer_bytes`).
    Records in the buffer are still sent.

    Example:
        >>> from kstreamnb.simulation import Log
        >>> log = Log()
        >>> log.create_topic("logs")
        >>> try:
        ...     log.producer(buffer_bytes=10, max_block="10ms").send("logs", None, "a line of a log")
        ... except BufferExhaustedError as error:
        ...     print(error)
        the producer's buffer has no room for a record of topic "logs"
    """


class UnknownTopicError(EngineError):
    """A topic does not exist, or this user cannot see it.

    Cause: the name is mistyped or has another prefix on this cluster, or the user may not READ the topic: Kafka does
    not list topics that a user cannot read.

    Remedy: use a name that the error suggests, create the topic, or grant READ.

    Example:
        >>> unknown("topic", "ordres", ["orders"], error=UnknownTopicError).hint
        'did you mean "orders"?'
    """


class TopicDeletedError(UnknownTopicError):
    """A topic of a running query was deleted.

    Cause: somebody deleted an input or an output while the query was running.

    Remedy: for an output, deploy again, which creates it. For an input, restore its data; or, if its records may be
    lost, create it and deploy with `fail_on_loss=False`.

    Example:
        >>> TopicDeletedError.restartable
        False
    """

    restartable = False


class PartitionError(EngineError):
    """A partition does not exist, or the number of partitions is impossible for the application.

    Cause: a partitioner or a row of a frame names a partition that the topic does not have, or a topic has grown while
    its keys have state in other partitions.

    Remedy: choose from 0 to the number of partitions - 1. After a topic has grown, copy it into a new one with the
    desired number of partitions, and start from a new checkpoint.

    Example:
        >>> PartitionError.restartable
        False
    """

    restartable = False


class FencedError(EngineError):
    """A newer deployment of the application took over; this one publishes nothing more.

    Cause: the application was deployed a second time, here or on another machine, with the same application id.

    Remedy: none, if that was intended. Otherwise stop one of the two deployments, or give one of them another
    `application_id`; restarting one by hand (`query.restart()`) takes over again.

    Example:
        >>> FencedError.restartable
        False
    """

    restartable = False


class CheckpointError(EngineError):
    """A checkpoint is missing or damaged, belongs to another application or topology, or is older than Kafka's topics.

    Cause: the folder is mistyped, was deleted, moved or replaced, was written by a later version, or belongs to a
    topology with other stores.

    Remedy: name the right folder. If it is lost, reset the application (`kstreamnb reset`) and process its input again.

    Example:
        >>> from kstreamnb import StreamsBuilder
        >>> from kstreamnb.spark import read_store
        >>> builder = StreamsBuilder("shop")
        >>> builder.stream("orders").group_by_key().count(store="counts").to_stream().to("totals")
        >>> try:
        ...     read_store(builder.build(), "counts", "checkpoints/shpo")
        ... except CheckpointError as error:
        ...     print(error)
        folder ".../checkpoints/shpo" is not a checkpoint
    """

    restartable = False


class DataLossError(EngineError):
    """Records or batches were lost before they were read or published.

    Cause: the retention of a topic removed records that the query had not read, or a topic was deleted and created
    again under its name.

    Remedy: restore the records and deploy again; or accept the loss with `fail_on_loss=False`, and raise
    `retention.ms` above the longest downtime of the query.

    Example:
        >>> DataLossError.restartable
        False
    """

    restartable = False


class ApplicationStateError(EngineError):
    """The call needs the application to be stopped, or to be running, and it is not.

    Cause: a reset, an adoption or a change of partitions while the application runs, a deployment while Kafka Streams
    runs under its id, or a call that needs a running query before it started or after it ended.

    Remedy: stop the application first (`query.stop()`, or every instance of it in Java), or start it.

    Example:
        >>> from kstreamnb.spark import FunctionSink
        >>> try:
        ...     FunctionSink(print).bound
        ... except ApplicationStateError as error:
        ...     print(error)
        the sink has no query yet
    """


class SinkError(EngineError):
    """The sink of a query failed; the original error is ``__cause__``.

    Cause: the database, the folder or the function that takes the output raised an error.

    Remedy: fix the sink and call `query.restart()`; the batch is delivered again.

    Example:
        >>> SinkError.restartable
        True
    """


class StorageError(EngineError):
    """A folder cannot be written: its disk is full or read-only, or a permission is missing.

    Cause: the checkpoint's disk has no room, is mounted read-only, or belongs to another user.

    Remedy: free disk space, or choose a writable directory; then call `query.restart()`.

    Example:
        >>> StorageError.restartable
        True
    """


class SparkError(EngineError):
    """Spark failed: its session, its workers, or a function or topology that it cannot run.

    Cause: no session runs, a worker was killed or ran out of memory, or a function refers to an object that cannot
    be sent to workers, such as an open connection.

    Remedy: start a session with `ks.spark.spark_session()`; open connections in the `init` of a `ks.Processor`.

    Example:
        >>> from kstreamnb.spark import spark_report
        >>> try:
        ...     spark_report()
        ... except SparkError as error:
        ...     print(error)
        no Spark session is active
    """


class JvmGoneError(SparkError):
    """The JVM of a Spark session was killed or no longer answers.

    Cause: the operating system killed it because memory ran out, or somebody stopped it.

    Remedy: call `ks.spark.spark_session()`, which starts another JVM in this process, and deploy again with the same
    checkpoint. If memory was the reason, raise `spark.driver.memory`.

    Example:
        >>> JvmGoneError.restartable
        False
    """

    restartable = False


class MissingJavaError(EngineError):
    """No suitable Java was found on this machine.

    Cause: Java is not installed, is older than 17, or `JAVA_HOME` names a folder without it.

    Remedy: install a Java runtime, 17 or later, and set `JAVA_HOME` or `PATH`. The driver, samples and diagrams need
    no Java; `kstreamnb doctor` lists what runs here.

    Example:
        >>> import os
        >>> from unittest.mock import patch
        >>> from kstreamnb.kafka import local_broker
        >>> try:
        ...     with patch.dict(os.environ, {"JAVA_HOME": "/nowhere", "PATH": ""}):
        ...         local_broker()
        ... except MissingJavaError as error:
        ...     print(error)
        no Java was found
    """

    restartable = False
