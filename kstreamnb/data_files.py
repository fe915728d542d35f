"""Reads the package's data files: texts and tables beside the modules that use them."""

from __future__ import annotations

from pkgutil import get_data


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
