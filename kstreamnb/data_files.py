"""Encodings of texts: data files beside the modules that use them, files of users, and output."""

from __future__ import annotations

import os
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from io import BytesIO, TextIOWrapper
from pkgutil import get_data

_MARKS = {BOM_UTF8: "utf-8-sig", BOM_UTF16_LE: "utf-16", BOM_UTF16_BE: "utf-16"}


def text_of(package: str, name: str) -> str:
    """Return the text of a data file, by the loader: executors of a cluster import the package from a zip file.

    Args:
        package: the package in whose folder the file is.
        name: the name of the file.
    """
    data = get_data(package, name)
    assert data is not None
    return data.decode()


def rows_of(package: str, name: str) -> list[list[str]]:
    """Return the rows of a table whose cells are separated by tabs; lines that begin with # are comments.

    Args:
        package: the package in whose folder the file is.
        name: the name of the file.

    Example:
        >>> rows_of("kstreamnb", "java_hints.tsv")[0]
        ['null', 'write None']
    """
    return [line.split("\t") for line in text_of(package, name).splitlines() if not line.startswith("#")]


def encoding_of(begin: bytes) -> str:
    """Return the encoding of a text: that of its byte order mark, which programs of Windows write, else UTF-8.

    Args:
        begin: the first bytes, at least three.
    """
    return next((name for mark, name in _MARKS.items() if begin.startswith(mark)), "utf-8")


def decoded(data: bytes) -> str:
    r"""Return the text of a user's file, without its byte order mark, and with the ends of lines as Python has them.

    Args:
        data: the content of the file.

    Example:
        >>> decoded(b"\xef\xbb\xbfone\r\n"), decoded("two".encode("utf-16"))
        ('one\n', 'two')
    """
    return TextIOWrapper(BytesIO(data), encoding_of(data)).read()


def encode_all(*streams: object) -> None:
    """Let output have any character: pipes and files get UTF-8, and a terminal an escape for what it cannot show.

    On Windows, Python would write to pipes in a code page that lacks arrows, and fail.

    Args:
        streams: standard output and standard error, unless they were replaced by something else.
    """
    for stream in streams:
        if isinstance(stream, TextIOWrapper):
            is_chosen = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=stream.encoding if is_chosen else "utf-8", errors="backslashreplace")
