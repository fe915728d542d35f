"""Exported scripts never contain a secret, however it is spelled."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kstreamnb.errors import EngineError
from kstreamnb.notebook.portable_cells import CellRun, portable
from kstreamnb.notebook.secrets import from_environment

REPLACED = [
    'password = "hunter2"',
    'password: str = "hunter2"',
    'class Login:\n    password: str = "hunter2"',
    'print(password := "hunter2")',
    'def connect(host, password="hunter2"):\n    return host',
    'def connect(*, sasl_password="hunter2"):\n    return 1',
    'connect = lambda password="hunter2": password',
    'user, password = "me", "hunter2"',
    'client.password = "hunter2"',
    'settings["sasl.password"] = "hunter2"',
    'settings = {"sasl.password": "hunter2"}',
    'settings = dict(sasl_password="hunter2")',
    'token = "hunter2"',
    'login(token="hunter2")',
    'settings.setdefault("sasl.password", "hunter2")',
    'setattr(client, "password", "hunter2")',
    'settings = {"sasl." + "password": "hunter2"}',
    'settings = {"ssl.keystore.key": "hunter2"}',
    'api_key = "hunter2"',
    'password += "hunter2"',
]
REFUSED = [
    'password = f"hunter2{1}"',
    'password = b"hunter2"',
    'password = "hun" + "hunter2"',
    'password = "hunter2".strip()',
    'password = b64decode("hunter2")',
    'password = "hunter2" if True else None',
    'password = ["hunter2"][0]',
    'passwords = {"shop": "hunter2"}',
    'def password():\n    return "hunter2" + ""',
    'for password in ["hunter2"]:\n    pass',
    'settings = dict([("sasl.password", "hunter2")])',
    'settings = dict(zip(["sasl.password"], ["hunter2"]))',
    'url = "https://me:hunter2@registry"',
    'servers = "me:hunter2@broker:9092"',
    "config = 'ScramLoginModule required password=\"hunter2\";'",
    'key = "-----BEGIN RSA PRIVATE KEY-----hunter2"',
    '*rest, password = "a", "hunter2"',
]
HARMLESS = [
    'words = "the password is secret".split()',
    'tokens = "the duck".split()',
    'kept = words.filter(lambda key, word: word != "hunter2")',
    'password = os.environ["SHOP_PASSWORD"]',
    'password = os.environ.get("SHOP_PASSWORD")',
    'password = getpass.getpass("Password: ")',
    'password = Path("/run/secrets/shop").read_text()',
    'sample = sample.redact("password", "card")',
    'monkey = "banana"',
    'password = ""',
    'at = "2026-01-01T09:00"',
]


@pytest.mark.parametrize("code", REPLACED)
def test_a_plain_text_under_a_secrets_name_is_read_from_the_environment(code: str) -> None:
    """The script names the variable, not the value."""
    statements, names = from_environment(ast.parse(code).body)
    text = "\n".join(map(ast.unparse, statements))
    assert "hunter2" not in text
    assert names
    assert f"os.environ[{names[0]!r}]" in text


@pytest.mark.parametrize("code", REFUSED)
def test_any_other_spelling_of_a_secret_refuses_the_export_with_its_line(code: str) -> None:
    """The error names the line and does not repeat the secret."""
    with pytest.raises(EngineError, match="cannot export a secret") as caught:
        from_environment(ast.parse(f"first = 1\n{code}").body)
    text = "\n".join([str(caught.value), *caught.value.__notes__])
    assert "hunter2" not in text
    assert "line 2" in text or "line 3" in text


@pytest.mark.parametrize("code", HARMLESS)
def test_data_and_lookups_stay(code: str) -> None:
    """Similar words are data, and a secret read elsewhere is not in the script."""
    statements, names = from_environment(ast.parse(code).body)
    assert ast.unparse(ast.parse(code)) == "\n".join(map(ast.unparse, statements))
    assert names == ()


def test_a_saved_regression_notebook_holds_no_secret(tmp_path: Path) -> None:
    """A cell that sets a secret reads it from the environment; a cell that computes one makes the export fail."""
    sources, _ = portable([CellRun('password = "hunter2"'), CellRun("n = 1  # kept")], tmp_path / "saved.ipynb")
    assert ["import os\npassword = os.environ['PASSWORD']", "n = 1  # kept"] == sources
    with pytest.raises(EngineError, match="cannot export a secret"):
        portable([CellRun('password = b"hunter2"')], tmp_path / "saved.ipynb")
