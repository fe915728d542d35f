"""Exported scripts never contain a secret, however it is spelled."""

from __future__ import annotations

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
    'def password():\n    return "hunter2"',
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
    'settings = "security.protocol=SASL_SSL\\nsasl.password=hunter2"',
    'url = "http://registry/subjects?token=hunter2"',
    "get_ipython().run_line_magic('env', 'SASL_PASSWORD=hunter2')",
    "get_ipython().run_line_magic('set_env', 'API_KEY hunter2')",
    "get_ipython().system('export API_KEY=hunter2; make')",
    "get_ipython().run_cell_magic('bash', '', 'export TOKEN=hunter2')",
    "get_ipython().run_cell_magic('writefile', 'client.properties', 'sasl.password=hunter2')",
    "found = get_ipython().getoutput('curl -u me:hunter2 http://registry')",
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
    "get_ipython().run_line_magic('env', 'SASL_PASSWORD=$SHOP_PASSWORD')",
    "get_ipython().run_line_magic('env', 'SASL_PASSWORD')",
    "get_ipython().system('export TOKEN=$TOKEN; pip install tokenizers')",
    'query = "SELECT name FROM users WHERE password = ?"',
    'login = f"password={password}"',
    'record = {"text": "token: the duck"}',
]


@pytest.mark.parametrize("code", REPLACED)
def test_a_plain_text_under_a_secrets_name_is_read_from_the_environment(code: str) -> None:
    """The script names the variable, not the value."""
    text, names = from_environment(code)
    assert "hunter2" not in text
    assert names
    assert f"os.environ[{names[0]!r}]" in text


@pytest.mark.parametrize("code", REFUSED)
def test_any_other_spelling_of_a_secret_refuses_the_export_with_its_line(code: str) -> None:
    """The error names the line and does not repeat the secret."""
    with pytest.raises(EngineError, match="cannot export a secret") as caught:
        from_environment(f"first = 1\n{code}")
    text = "\n".join([str(caught.value), *caught.value.__notes__])
    assert "hunter2" not in text
    assert "line 2" in text or "line 3" in text


@pytest.mark.parametrize("code", HARMLESS)
def test_data_and_lookups_stay(code: str) -> None:
    """Similar words are data, and a secret read elsewhere is not in the script."""
    assert (code, ()) == from_environment(code)


@pytest.mark.parametrize(
    "code",
    [
        "n = 1  # hunter2 is the password",
        '# settings["sasl.password"] = "hunter2"\nn = 1',
        "# password:\n# hunter2\nn = 1",
        'password = "hunter2"  # hunter2 is old',
        "n = 1  # broker at me:hunter2@broker:9092",
        "# api key = hunter2",
    ],
)
def test_comments_that_mention_a_secret_are_replaced(code: str) -> None:
    """Their place says so; the code stays."""
    text, _ = from_environment(code)
    assert "hunter2" not in text
    assert "# left out: a comment that mentions a secret" in text


def test_comments_and_layout_stay_around_a_replaced_secret() -> None:
    """Only the secret changes, also after letters of several bytes and over several lines."""
    code = 'login = {  # für den Laden\n    "é": 1, "sasl.password": (\n        "hun"\n        "ter2"),\n}  # key: shop'
    text, _ = from_environment(code)
    parts = 'login = {  # für den Laden\n    "é": 1, "sasl.password": (\n        os.environ[\'SASL_PASSWORD\']),\n'
    assert f"{parts}}}  # key: shop" == text


@pytest.mark.parametrize(
    "code",
    [
        "text = f\"{login(password='hunter2')} to {shop}\"",
        "text = f'{login(password=\"hunter2\")} to {shop}'",  # a lookup with single quotes would end the string
    ],
)
def test_a_secret_inside_an_f_string_is_replaced_or_refused(code: str) -> None:
    """It is never left, and never replaced at a wrong place."""
    try:
        text, _ = from_environment(code)
    except EngineError as error:
        text = str(error)
    assert "hunter2" not in text


def test_a_saved_regression_notebook_holds_no_secret(tmp_path: Path) -> None:
    """A cell that sets a secret reads it from the environment; a cell that computes one makes the export fail."""
    sources, _ = portable([CellRun('password = "hunter2"'), CellRun("n = 1  # kept")], tmp_path / "saved.ipynb")
    assert ["import os\npassword = os.environ['PASSWORD']", "n = 1  # kept"] == sources
    with pytest.raises(EngineError, match="cannot export a secret"):
        portable([CellRun('password = b"hunter2"')], tmp_path / "saved.ipynb")
