"""Secrets that stand in cells: in code that is written to a file they are read from the environment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

__all__ = ["from_environment"]

# Settings that `kafka.settings` masks. A variable may be named so, too, but for words that have other meanings alone.
_SECRET = re.compile(r"password|secret|credential|\.pem|\.token|jaas\.|oauthbearer\.config|user\.info", re.IGNORECASE)


def from_environment(statements: Iterable[ast.stmt]) -> tuple[list[ast.stmt], tuple[str, ...]]:
    """Statements that read passwords and keys from the environment, and the names of its variables.

    Example:
        >>> code = 'servers = {"bootstrap.servers": "broker:9092", "sasl.password": "s3cret"}'
        >>> (statement,), names = from_environment(ast.parse(code).body)
        >>> print(ast.unparse(statement), names)
        servers = {'bootstrap.servers': 'broker:9092', 'sasl.password': os.environ['SASL_PASSWORD']} ('SASL_PASSWORD',)
    """
    hiding = _Hiding()
    return [hiding.visit(statement) for statement in statements], tuple(dict.fromkeys(hiding.found))


class _Hiding(ast.NodeTransformer):
    """Puts a look into the environment wherever a text is given under a secret's name."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """``{"sasl.password": …}``."""
        pairs = zip(node.keys, node.values, strict=True)
        node.values = [self._hidden(_text(key), value) for key, value in pairs]
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """``dict(sasl_password=…)``."""
        node.value = self._hidden(node.arg, node.value)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """``password = …`` and ``settings["sasl.password"] = …``."""
        for target in node.targets:
            node.value = self._hidden(_named(target), node.value)
        return self.generic_visit(node)

    def _hidden(self, name: str | None, value: ast.expr) -> ast.expr:
        if name is None or not _text(value) or not _SECRET.search(name):
            return value
        self.found.append(name.upper().replace(".", "_"))
        return ast.parse(f"os.environ[{self.found[-1]!r}]", mode="eval").body


def _named(target: ast.expr) -> str | None:
    if isinstance(target, ast.Subscript):
        return _text(target.slice)
    return target.id if isinstance(target, ast.Name) else getattr(target, "attr", None)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
