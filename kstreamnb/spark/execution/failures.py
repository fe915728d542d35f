"""Pass failures to the user: from a worker as a pickled error, from Spark as the few lines that matter."""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Container, Sequence
from typing import Any, NoReturn

import cloudpickle

from kstreamnb import errors
from kstreamnb.data_files import rows_of
from kstreamnb.errors import (
    CheckpointError,
    EngineError,
    FencedError,
    JvmGoneError,
    KStreamError,
    ProcessingError,
    SparkError,
    StorageError,
)
from kstreamnb.hints import message_of
from kstreamnb.source_location import origin_of
from kstreamnb.spark.jvm.constants import NO_JVM

_OWN = re.compile(r"kstreamnb(\.\w+)+Error: ")
_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_PACKAGES = re.compile(r"^([\w$]+\.)+(?=[\w$]+(: |$))")
_WORDS = rows_of(__package__, "failure_words.tsv")
_DAMAGED = re.compile("|".join(word for about, word in _WORDS if about == "damaged"))
_ABOUT_SYSTEM = {word for about, word in _WORDS if about == "system"}
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|Read-only file system")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
# The kind of an error, with the name that Spark has for it.
_KIND = re.compile(r"\b([A-Z]\w*(?:Error|Exception))(?:: \[[\w.]+\]|(?=: ))")
_DIED = "Python worker exited unexpectedly"
_CLOSED = re.compile(r"EOFException|Connection reset|Broken pipe")  # the worker's connection, if it died during a task
TWO_WRITERS = "CONCURRENT_STREAM_LOG_UPDATE"
TOO_SLOW = "Python worker failed to connect back"  # Spark waits 10 s for its Python processes, whatever its settings
_NOISE = re.compile(r"^\s*(An error occurred while calling |at |File \"|\.\.\. \d+ more|Caused by|Traceback|\^)")


def pack_failure(task: str, error: KStreamError) -> bytes:
    """Pickle an error with its cause; a cause that cannot be pickled is replaced by its text."""
    cause = error.__cause__
    try:
        data: bytes = cloudpickle.dumps((task, error, cause), 5)
        pickle.loads(data)
    except BaseException:  # whatever pickling a user's exception raises: its text still goes through
        data = cloudpickle.dumps((task, error, RuntimeError(f"{type(cause).__name__}: {message_of(cause)}")), 5)
    return data


def raise_first(blobs: list[bytes]) -> NoReturn:
    """Raise the failure of the first task that has one, with the user's exception as cause and the task as ``task``.

    Workers know the user's cells by their files only; here they get the names that the notebook has for them.
    """
    task, error, cause = min((pickle.loads(blob) for blob in blobs), key=lambda failure: str(failure[0]))
    error.task = task
    raise error.named_by(origin_of) from cause


def name_input(error: KStreamError, inner: Container[str], inputs: Sequence[str]) -> None:
    """Add to an error about a record of a topic inside the query where its origin can be found: that topic has no log.

    Args:
        error: the error of a task.
        inner: names of topics whose records pass from task to task inside the query.
        inputs: names of the application's input topics.
    """
    if not isinstance(error, ProcessingError) or error.coordinates is None or error.coordinates[0] not in inner:
        return
    topic, *_, timestamp_ms = error.coordinates
    way = f'topic "{topic}" exists only inside the query: search {", ".join(inputs)} near timestamp {timestamp_ms} ms'
    error.__notes__ = [each for each in error.__notes__ if each != f"Detail: {error.detail}"]
    error.detail = "; ".join(filter(None, (error.detail, way)))
    error.add_note(f"Detail: {error.detail}")


def spark_failure(what: str, error: BaseException) -> EngineError:
    """Return an error of Spark in the kit's form.

    If the text contains one of the kit's errors, return that one with its notes; otherwise the outermost cause that
    Spark names and the innermost, or its first sentence and the innermost Python error. Two queries on one checkpoint,
    a busy machine, a full disk, and damaged files are reported in the kit's words.
    """
    text = str(error)
    if TOO_SLOW in text:
        detail = "this machine was too busy to start a Spark process within 10 s"
        return SparkError(f"{what} failed: {TOO_SLOW}", detail=detail, hint="start it again")
    if TWO_WRITERS in text:
        fact = f"{what} failed: another deployment uses the same checkpoint"
        detail = "the other one wrote the next batch there, so this one has stopped"
        return FencedError(fact, detail=detail, hint="let the other one run; or stop it and deploy this one again")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    own = [at for at, line in enumerate(lines) if _OWN.match(line)]
    if own:
        notes = {name: note for name, _, note in (line.partition(": ") for line in lines[own[-1] + 1 : own[-1] + 4])}
        name, _, message = lines[own[-1]].partition(": ")
        kind = getattr(errors, name.rpartition(".")[2], EngineError)
        kind = kind if issubclass(kind, EngineError) else EngineError
        return kind(message, detail=notes.get("Detail"), hint=notes.get("Hint"))
    full = _NO_ROOM.search(text)
    if full is not None:
        fact, detail = f"{what} failed: its files cannot be written", f"the system says: {full.group()}"
        hint = "free disk space for the checkpoint and Spark's local files, then deploy again: the query continues"
        return StorageError(fact, detail=detail, hint=hint)
    missing = _NO_MODULE.search(text)
    if missing is not None:
        module = missing.group(1).partition(".")[0]
        fact = f'{what} failed: Spark\'s workers cannot import module "{missing.group(1)}"'
        program = os.environ.get("PYSPARK_PYTHON", "python3")
        detail = f"they run {program}: it has installed packages, modules on PYTHONPATH, and modules that were sent"
        hint = f"call ks.spark.ship(spark, {module!r}) before, or define the function in the notebook"
        if module == "kstreamnb":
            hint = f"set PYSPARK_PYTHON={sys.executable} before the session starts; on a cluster, ks.spark.ship(spark)"
        return SparkError(fact, detail=detail, hint=hint)
    python = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    causes = [_PACKAGES.sub("", cause) for cause in _CAUSE.findall(text)]
    first = causes[0] if causes else _PACKAGES.sub("", lines[0].lstrip(": ")) if lines else type(error).__name__
    last: Any = causes[-1] if causes else python[-1] if python else None
    shown = None if last is None or last == first else _without_records(last)
    message = f"{what} failed: {_without_records(first)}"
    if is_damage(error):
        hint = "restore the checkpoint from a copy, or reset the application"
        return CheckpointError(message, detail=shown, hint=hint)
    return SparkError(message, detail=shown, hint="ks.spark.spark_logs() shows Spark's complete log")


def worker_died(what: str, error: BaseException, positions: Sequence[str]) -> EngineError | None:
    """Return the error of a worker process that died during a task; None if Spark reports something else.

    Args:
        what: what failed.
        error: Spark's error.
        positions: the last known positions of the dead workers, as text.
    """
    text = str(error)
    if _OWN.search(text) or not (_DIED in text or (positions and _CLOSED.search(text))):
        return None
    detail = f"it was at {'; '.join(positions)}" if positions else "it had not started a task"
    cause = "a function may have ended it (os._exit, a crash in C code), or the system, for lack of memory"
    action = "see the kernel's log, lower max_records or memory_limit, then deploy again: the query continues"
    return SparkError(f"{what} failed: a worker process died", detail=detail, hint=f"{cause}: {action}")


def jvm_gone(application: str) -> JvmGoneError:
    """Return the error of a query whose JVM does not answer this process any more."""
    hint = "see spark_logs(); spark_session() starts another one; deploy again with it, from the checkpoint"
    return JvmGoneError(f'the JVM that "{application}" ran in is gone', detail=NO_JVM, hint=hint)


def is_damage(error: BaseException) -> bool:
    """Return whether Spark found files of a checkpoint damaged or missing."""
    return _DAMAGED.search(str(error)) is not None


def _without_records(text: str) -> str:
    """Cut a text of Spark's after the first error whose own text may quote a record, and to 300 characters."""
    for kind in _KIND.finditer(text):
        if kind[1] not in _ABOUT_SYSTEM:
            text = text[: kind.end()]
            break
    return text if len(text) <= 300 else text[:297] + "..."
