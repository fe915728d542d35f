"""The default serde of values: JSON as compact UTF-8."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from kstreamnb.core.serde import Serde
from kstreamnb.errors import SerdeError


def _encoder(*, sort_keys: bool) -> Callable[[Any], str]:
    """A function from value to text; the standard encoder makes its fast half anew for every value."""
    slow = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
    make, quote = getattr(json.encoder, "c_make_encoder", None), json.encoder.encode_basestring
    if make is None:
        return slow.encode
    fast = make(None, slow.default, quote, None, ":", ",", sort_keys, False, False)  # noqa: FBT003 - it has no names
    return lambda value: "".join(fast(value, 0))


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_encode, _encode_sorted = _encoder(sort_keys=False), _encoder(sort_keys=True)
_DECODER = json.JSONDecoder(parse_constant=_refuse)
_read_first = _DECODER.raw_decode


def _decode(text: str) -> Any:
    """The value of a text; the standard decoder looks for spaces around every one, and there are hardly ever any."""
    if text[:1] not in " \t\n\r":
        value, end = _read_first(text)
        if end == len(text):
            return value
    return _DECODER.decode(text)


_SCALARS = frozenset({str, int, float, bool, type(None)})
_ADVICE = "convert it to text or numbers before, or make a serde with Serdes.serde_from"


@dataclass(frozen=True)
class JsonSerde(Serde):
    """JSON without spaces, in the order in which the value holds its names, or sorted by name.

    What cannot come back as it was is refused: names that are not text, not-a-number, and objects of other
    types. A tuple is written as a list and comes back as one. Sorted names give equal dicts equal bytes.

    Example:
        >>> JsonSerde().serialize({"sku": "shoe", "sizes": (38, 39)})
        b'{"sku":"shoe","sizes":[38,39]}'
    """

    name: str = "json"
    sort_keys: bool = False

    plain: ClassVar[frozenset[type]] = frozenset({str, int, float, bool})
    expects: ClassVar[str] = "dict with text as names, list, tuple, str, int, float, bool or None"

    def keeps(self, value: Any) -> bool:
        """All but not-a-number, infinity and lone surrogates, which JSON cannot hold."""
        kind = type(value)
        if kind is float:
            return math.isfinite(value)
        return kind is not str or value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)

    def _write(self, value: Any) -> bytes:
        try:
            self._check(value)
            return (_encode_sorted if self.sort_keys else _encode)(value).encode()
        except SerdeError:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            raise self._unwritable(value, str(error), hint=_ADVICE) from error

    def _check(self, value: Any) -> None:
        """Refuse what the encoder would write as something else."""
        if type(value) in _SCALARS:
            return
        if isinstance(value, dict):
            for name, item in value.items():
                if type(name) is not str:
                    why = f'a name in it is of type "{type(name).__name__}"'
                    raise self._unwritable(value, why, hint=_ADVICE)
                if type(item) not in _SCALARS:
                    self._check(item)
        elif type(value) in (list, tuple):
            for item in value:
                if type(item) not in _SCALARS:
                    self._check(item)
        else:
            raise self._unwritable(value, hint=_ADVICE)

    def _read(self, data: bytes) -> Any:
        try:
            return _decode(data.decode())
        except (ValueError, RecursionError) as error:
            raise self._unreadable(data, f"{error}") from error
