"""Expressions that read or write a local name of a generated function; common kinds of values need no call."""

from __future__ import annotations

from kstreamnb.core.codec import copier, decoder, encoder, indexed_type
from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import Serde, StringSerde
from kstreamnb.core.serdes import JsonSerde, TimeWindowedSerde, WindowedSerde
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder

_COUNT_BYTES = 8


def add_reading(
    builder: FunctionBuilder, source: str, serdes: tuple[Serde, Serde], *, given: bool = False, indexed: bool = False
) -> None:
    """Append the lines that take key and value from a record, which the user has given, or in wire form.

    A dict of JSON is not copied yet: that needs a reader that does not ignore it. A key that is ``indexed`` and not new
    stays as it is if its serde keeps such keys.
    """
    changes = "if is_new: " if indexed and indexed_type(serdes[0]) in serdes[0].plain else ""
    for name, serde in zip(("key", "value"), serdes, strict=True):
        flat, read = (_copied if given else _read)(builder, serde, name)
        if not isinstance(serde, JsonSerde):
            builder.add(source, f"{changes * (name == 'key')}{name} = {read}")
        elif name == "key":
            builder.add(source, f"{changes}key = key.copy() if {flat} else {read}")
        else:
            builder.add(source, f"flat = {flat}")
            builder.add(source, f"if not flat: value = {read}")
    builder.facts.key_serde = serdes[0] if given else None
    builder.facts.lent = serdes[1] if isinstance(serdes[1], JsonSerde) else None


def _read(builder: FunctionBuilder, serde: Serde, name: str) -> tuple[str, str]:
    """Return a test that a name holds a dict to copy, and an expression for its value if the test fails."""
    read = builder.name(decoder(serde), f"read_{name}")
    return f"type({name}) is CopiedValue", f"{read}({name}) if type({name}) is SerializedValue else {name}"


def write_expression(builder: FunctionBuilder, sink: str, serde: Serde, name: str, *, in_process: bool) -> str:
    """Return an expression for a name in the form in which it leaves the task; readers may be ``in_process``."""
    write = builder.name(copier(serde) if in_process else encoder(serde), f"write_{name}")
    written, lent = f"{write}({name})", ""
    if in_process and isinstance(serde, JsonSerde):
        is_flat = f"type({name}) is dict and {builder.name(serde.is_flat, 'flat')}({name})"
        written = f"CopiedValue({name}) if {is_flat} else {written}"
    test, copied = serde.inline_copy if in_process and name == "value" else ("", "")
    if test:
        written = f"{copied} if {test} else {written}"
    if name == "value" and builder.facts.lent == serde and in_process:
        lent = "(value if type(value) is CopiedValue else CopiedValue(value)) if flat else "
    elif name == "value":
        builder.own_value(sink)
    written = lent + _unless_kept(builder, serde, name, written)
    if name == "value" and builder.facts.wire == serde and not in_process:
        return f"wire if type(wire) is SerializedValue else {written}"
    return written


def _copied(builder: FunctionBuilder, serde: Serde, name: str) -> tuple[str, str]:
    """Return the same test and expression for a value that makes a round trip through a topic."""
    write, read, is_json = encoder(serde), decoder(serde), isinstance(serde, JsonSerde)
    copy = builder.name(serde.is_flat if is_json else serde.copy_value, f"{'flat' if is_json else 'copy'}_{name}")
    pass_on = f"{builder.name(lambda value: read(write(value)), f'pass_{name}')}({name})"
    converted = pass_on if is_json else f"{copy}({name}) or {pass_on}"
    return f"type({name}) is dict and {copy}({name})", _unless_kept(builder, serde, name, converted)


def _unless_kept(builder: FunctionBuilder, serde: Serde, name: str, convert: str) -> str:
    """Return an expression: the name itself if the serde keeps its value as it is, else ``convert``."""
    facts = builder.facts
    if name == "value" and facts.value_is_count and int in serde.plain and serde.width in (None, _COUNT_BYTES):
        return name
    if name == "key" and type(serde) is StringSerde and serde == facts.key_serde:
        return name
    kept = _kept_test(builder, serde, name)
    return convert if kept is None else f"{name} if {kept} else {convert}"


def _kept_test(builder: FunctionBuilder, serde: Serde, name: str) -> str | None:
    """Return a quick test that is true only for values that the serde keeps as they are; None if there is none."""
    plain: frozenset[type] = serde.plain
    if type(serde).keeps is Serde.keeps and plain:
        return f"type({name}) in {builder.name(plain, 'plain')}"
    if plain == {int} and serde.width is not None:
        bound = 1 << 8 * serde.width - 1
        return f"type({name}) is int and {-bound} <= {name} < {bound}"
    if isinstance(serde, StringSerde):
        return f"type({name}) is str and {name}.isascii()"  # other text may hold lone surrogates
    if isinstance(serde, JsonSerde):
        return f"(type({name}) is int or type({name}) is str and {name}.isascii())"
    return _kept_window_test(builder, serde, name)


def _kept_window_test(builder: FunctionBuilder, serde: Serde, name: str) -> str | None:
    if not isinstance(serde, WindowedSerde) or serde.inner is None:
        return None
    size = serde.size_ms if isinstance(serde, TimeWindowedSerde) else None
    if size is not None and name == "key" and size == builder.facts.inner_window_ms:
        return _kept_test(builder, serde.inner, "inner")
    inner = _kept_test(builder, serde.inner, f"{name}[0]")
    if inner is None or (size is None and isinstance(serde, TimeWindowedSerde)):
        return None
    width = f"{name}[2] - {name}[1] == {size} and " if size is not None else ""
    return f"type({name}) is {builder.name(Windowed, 'Windowed')} and {width}{inner}"
