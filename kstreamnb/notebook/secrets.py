"""Keeps secrets out of exported scripts: plain ones are read from the environment, any other refuses the export.

A secret is a string under a secret's name: a setting, variable, attribute, parameter, default, function, or argument.
A plain text there becomes ``os.environ[…]``. Text that is computed (f-strings, bytes, concatenations, decoding) cannot
be replaced safely, and neither can a private key or a password inside an address, wherever it is.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from io import StringIO
from typing import TypeGuard

from kstreamnb.errors import EngineError
from kstreamnb.notebook.variables import edited, span

_SECRET = re.compile(
    r"password|passwd|passphrase|(^|[._-])pwd$|secret|credential|[._]pem$|(^|[._-])token$|[._-]token[._-]|jaas"
    r"|oauthbearer[._]config|user[._]info|assertion|(keystore|private|api|access|signing)[._-]?key$",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]+:[^/\s@]+@|(?<![^\s,/])[^\s,/:@]+:[^\s,/:@]+@[\w.-]+:\d+|"
    r"(passw(or)?d|passphrase|secret|token|(api|access|private|signing)[._-]?key)[\w.-]{0,40}\s*=\s*[\"']?[^\s\"'={$<%*?]|"
    r"\s(-u|--user)[ =]?[^\s:]+:[^\s$]",
    re.IGNORECASE,
)
_WORD = re.compile(r"\b(token|pwd|(api|access|private|signing)[ _-]?key)\b", re.IGNORECASE)
_LEFT_OUT = "# left out: a comment that mentions a secret"
_LOOKUP = re.compile(
    r"environ|getenv|getpass|keyring|vault|get_?(secret|password|token)|^open$|read_(text|bytes)|^input$"
)
"""Functions and mappings from which a secret may be read: the texts in their arguments are names."""

_SETTER = re.compile(r"(set|put|add|with|option|config)")

_Values = tuple[tuple[str, ast.expr], ...]


def from_environment(source: str) -> tuple[str, tuple[str, ...]]:
    """Return a source that reads secrets from the environment, and the names of the variables that it reads.

    Layout and comments stay; a comment that mentions a secret, or repeats one, is replaced.

    Raises: EngineError with the line of a secret that cannot be replaced; the message does not repeat it.

    Example:
        >>> text, names = from_environment('login = {"sasl.password": "s3cret"}  # for the shop')
        >>> print(text, names)
        login = {"sasl.password": os.environ['SASL_PASSWORD']}  # for the shop ('SASL_PASSWORD',)
    """
    tree = ast.parse(source)
    values = [pair for node in ast.walk(tree) for pair in _named_values(node)]
    secrets = ((name, value) for name, value in values if _is_text(value) and _SECRET.search(name))
    found = {value: re.sub(r"\W", "_", name).upper() for name, value in secrets}  # the variable of each
    edits = [*_comments(source, {str(secret.value) for secret in found})]
    for secret, variable in found.items():
        edits.append((*span(source, secret), f"os.environ[{variable!r}]"))
        secret.value = ""  # what has a value below is left
    _check(tree)
    result = edited(source, edits)
    try:
        _check(ast.parse(result))
    except (SyntaxError, EngineError):  # Python does not always say where an f-string's parts are
        line = next(iter(found)).lineno
        raise _refusal("it is part of a string that is put together", line) from None  # the cause has lines of code
    in_order = sorted(found, key=lambda secret: (secret.lineno, secret.col_offset))
    return result, tuple(dict.fromkeys(found[secret] for secret in in_order))


def _comments(source: str, secrets: set[str]) -> Iterator[tuple[int, int, str]]:
    """Replace comments that mention a secret or repeat one, and those that follow in the next lines."""
    lines, last = source.splitlines(keepends=True), -1
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            text = token.string
            hides = _SECRET.search(text.replace(" ", "_")) or _WORD.search(text) or _SECRET_TEXT.search(text)
            if hides or any(each in text for each in secrets) or row == last + 1:
                begin, last = sum(map(len, lines[: row - 1])) + column, row
                yield begin, begin + len(text), _LEFT_OUT


def _check(tree: ast.AST) -> None:
    """Raise EngineError for a secret that is left."""
    for node in ast.walk(tree):
        for name, value in _named_values(node):
            if _SECRET.search(name) and any(_texts(value)):
                raise _refusal(f'"{name}" is set to bytes, to a computed text or by a magic', value.lineno)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value if isinstance(node.value, str) else node.value.decode(errors="replace")
            if _SECRET_TEXT.search(text):
                raise _refusal("a string contains a password or private key", node.lineno)
        if isinstance(node, ast.Call | ast.Tuple | ast.List | ast.Set):
            _check_pairs(node, node.lineno)


def _check_pairs(node: ast.Call | ast.Tuple | ast.List | ast.Set, line: int) -> None:
    """Refuse a secret setting's name as a value beside other texts, such as ``("sasl.password", "…")``."""
    parts = [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else node.elts
    texts = [text for part in parts for text in _texts(part)]
    names = (text for text in texts if "." in text and re.fullmatch(r"[\w.-]+", text))
    setting = next(filter(_SECRET.search, names), None)
    if setting is not None and len(texts) > 1:
        raise _refusal(f'"{setting}" is passed with other strings, one of which may be its value', line)


def _refusal(fact: str, line: int) -> EngineError:
    hint = 'read it from the environment: os.environ["…"]'
    return EngineError(f"cannot export a secret: {fact}", detail=f"line {line} of its cell", hint=hint)


def _named_values(node: ast.AST) -> _Values:
    """Return the values that a node gives to names: assignments, arguments, defaults, keys, returns, loops."""
    match node:
        case ast.Assign(targets, value):
            return tuple(pair for target in targets for pair in _unpacked(target, value))
        case (
            ast.AnnAssign(target, _, ast.expr() as value)
            | ast.AugAssign(target, _, value)
            | (ast.NamedExpr(target, value) | ast.DictComp(target, value))
            | (ast.For(target, value) | ast.AsyncFor(target, value) | ast.comprehension(target, value))
        ):
            return ((_name(target), value),)
        case ast.keyword(str(name), value):
            return ((name, value),)
        case ast.Dict(keys, values):
            return tuple((_name(key), value) for key, value in zip(keys, values, strict=True) if key is not None)
        case ast.Compare(left, _, comparators):
            return tuple((_name(left), each) for each in comparators) if isinstance(left, ast.Name) else ()
        case ast.arguments():
            plain = [*node.posonlyargs, *node.args]
            with_defaults = plain[len(plain) - len(node.defaults) :]
            by_name = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            pairs = [*zip(with_defaults, node.defaults, strict=True), *by_name]
            return tuple((parameter.arg, value) for parameter, value in pairs if value is not None)
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name):
            returns = (each.value for each in ast.walk(node) if isinstance(each, ast.Return | ast.Yield))
            return tuple((name, value) for value in returns if value is not None)
        case ast.Call():
            return _set_by_call(node)
    return ()


def _set_by_call(node: ast.Call) -> _Values:
    function = _name(node.func)
    match node.args:
        case [key, value] if _SETTER.match(function):  # settings.setdefault("sasl.password", …)
            return ((_name(key), value),)
        case [_, ast.Constant(str(name)), value] if function == "setattr":
            return ((name, value),)
        case [ast.Constant("env" | "set_env"), ast.Constant(str(text)) as part]:  # %env SASL_PASSWORD=…
            name, _, whole = text.replace("=", " ").strip().partition(" ")
            return ((name, ast.copy_location(ast.Constant(re.sub(r"^\s*[${].*", "", whole).encode()), part)),)
    return ()


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple | ast.List):
        parts = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        if len(parts) == len(target.elts) and not any(isinstance(each, ast.Starred) for each in target.elts):
            for one, part in zip(target.elts, parts, strict=True):
                yield from _unpacked(one, part)
        else:
            yield from ((_name(one), value) for one in target.elts)
    else:
        yield _name(target), value


def _name(node: ast.expr) -> str:
    """Return the name of a destination; for a computed key, the texts and variables that it is made of."""
    match node:
        case ast.Name(name) | ast.Attribute(_, name) | ast.Constant(str(name)):
            return name
        case ast.Subscript(_, part) | ast.Starred(part):
            return _name(part)
        case ast.Constant(bytes(data)):
            return data.decode(errors="replace")
        case ast.Tuple(parts) | ast.List(parts):
            return " ".join(map(_name, parts))
    return "".join(_name(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the non-empty texts and bytes in an expression that are not names of a lookup."""
    match node:
        case ast.Subscript(source, _) | ast.Call(source) if _LOOKUP.search(ast.unparse(source)):
            return
        case ast.Constant(str(text)) if text:
            yield text
        case ast.Constant(bytes(data)) if data:
            yield data.decode(errors="replace")
        case ast.Dict(_, values):  # keys are names; a secret below one is found there
            for value in values:
                yield from _texts(value)
        case _:
            for part in ast.iter_child_nodes(node):
                yield from _texts(part)


def _is_text(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""
