"""Secrets and control characters in texts: hidden, in time that grows with the text alone."""

from __future__ import annotations

import re
import time

import pytest

from kstreamnb import KStreamError
from kstreamnb.core.tables import escaped
from kstreamnb.masking import clean_lines, is_secret, masked, without_secrets
from kstreamnb.runtime.context.config import client_setting_names
from kstreamnb.source_location import SourceLocation
from tests.hostile import ATTACKS

LONG, ALEF = 200_000, "\u05d0"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SASL_SSL://me:pass@broker:9092,other:9092", "SASL_SSL://***@broker:9092,other:9092"),
        ("at http://me:p:a:ss@registry/subjects", "at http://***@registry/subjects"),
        ('"me:pass@broker:9092" is down', '"***@broker:9092" is down'),
        ("-Djavax.net.ssl.keyStorePassword=hush -Xmx2g", "-Djavax.net.ssl.keyStorePassword=*** -Xmx2g"),
        (
            "jdbc:postgresql://db/shop?user=me&password=hush&ssl=1",
            "jdbc:postgresql://db/shop?user=me&password=***&ssl=1",
        ),
        ('ScramLoginModule required password="hu sh";', "ScramLoginModule required password=***;"),
        ("orders-0@5 and 10:30 at 127.0.0.1:9092", "orders-0@5 and 10:30 at 127.0.0.1:9092"),
        ("abfss://files@account.dfs.core.windows.net/shop", "abfss://files@account.dfs.core.windows.net/shop"),
        ("the parameter token: str", "the parameter token: str"),
        (
            "registry = SchemaRegistry({'basic.auth.user.info': 'me:hush'})",
            "registry = SchemaRegistry({'basic.auth.user.info': ***})",
        ),
        ('stream("in", **{"sasl.password": "hu sh", "n": 1})', 'stream("in", **{"sasl.password": ***, "n": 1})'),
        ("password = 'hush'  # of the shop", "password = ***  # of the shop"),
        ('login(token="hush", n=1)', "login(token=***, n=1)"),
        ("tokens = stream.flat_map_values(str.split)", "tokens = stream.flat_map_values(str.split)"),
        ('count(tokens="words")', 'count(tokens="words")'),
        ('if password == "hush" or token!="hush":', "if password == *** or token!=***:"),
        ('def login(password: Optional[str] = "hush"):', "def login(password: Optional[str] = ***):"),
        ("api_key = 'hush'; passwd='hush'", "api_key = ***; passwd=***"),
        ("jdbc:sqlserver://db?pwd=hush", "jdbc:sqlserver://db?pwd=***"),
        ('primary_key = "id"', 'primary_key = "id"'),
        ('login(password=f"hu{sh}", n=1)', "login(password=***, n=1)"),
        ("settings = {'sasl.password': b'hush'}", "settings = {'sasl.password': ***}"),
        (r'login(password="hu\"sh", n=1)', "login(password=***, n=1)"),
        ('password = """hu"sh"""', "password = ***"),
        ('settings = {"sasl.password": "hu sh', 'settings = {"sasl.password": ***'),
        ('settings["sasl.password"] = "hush"', 'settings["sasl.password"] = ***'),
        (r'"ScramLoginModule required password=\"hu sh\";"', '"ScramLoginModule required password=***;"'),
        ('login(api_key="hush", passphrase="hush")', "login(api_key=***, passphrase=***)"),
        ('filter(lambda _, value: value["token"] == "word")', 'filter(lambda _, value: value["token"] == "word")'),
    ],
)
def test_passwords_in_texts_are_masked(text: str, shown: str) -> None:
    """In addresses, options of Java and logins; times, addresses and positions of records stay."""
    assert shown == without_secrets(text)


@pytest.mark.parametrize(
    "part",
    [
        "a:",
        ":",
        "a:@",
        "password",
        "secret=",
        "token: a",
        "token.",
        "key='\\\\",
        'token="""',
        "@",
        "'a:",
        "ab",
        ALEF,
        '"',
        "$",
    ],
)
def test_a_text_of_any_length_is_masked_in_linear_time(part: str) -> None:
    """A text that a record chose, such as the message of a dead letter, stops no page for hours."""
    begin = time.process_time()
    without_secrets(part * LONG)
    escaped('"' + part * LONG)
    clean_lines(part * LONG)
    assert time.process_time() - begin < 10, "the square of the length would take minutes"


def test_the_line_of_an_error_shows_no_secret() -> None:
    """A service logs it; a worker's error, whose line is named again, has it once."""
    code = 'stream("in", value_serde=SchemaRegistry({"url": "u", "bearer.auth.token": "hush"}).avro("in"))'
    error = KStreamError("it failed", origin=SourceLocation("shop.py", 5, code, "/opt/shop.py"))
    shown = 'line 5: stream("in", value_serde=SchemaRegistry({"url": "u", "bearer.auth.token": ***}).avro("in"))'
    assert f"At: shop.py, {shown}" in error.__notes__
    notes = error.named_by(lambda file, line: SourceLocation("cell 3", line, code)).__notes__
    assert [f"At: cell 3, {shown}"] == [note for note in notes if note.startswith("At: ")]


def test_settings_with_secrets_are_known_by_their_names() -> None:
    """Those of clients and of Spark; no setting of a client that is shown holds one."""
    shown = [name for name in client_setting_names() if not is_secret(name)]
    assert not [name for name in shown if re.search(r"passw|secret|private|credential", name)]
    assert is_secret("spark.hadoop.fs.s3a.secret.key")
    assert is_secret("spark.ssl.keyPassword")
    assert {"a.password": "***", "b": 1} == masked({"a.password": "hush", "b": 1})
    assert {"db.passwd": "***", "db.pwd": "***", "pwd_file": "a"} == masked(
        {"db.passwd": "hush", "db.pwd": "hush", "pwd_file": "a"}
    )


def test_an_error_controls_no_terminal() -> None:
    """Its message, notes and hint may quote what strangers wrote; lines and tabs stay."""
    error = KStreamError("\n".join(ATTACKS), detail="\t".join(ATTACKS), hint=ATTACKS[12], java=ATTACKS[13])
    error.add_note(ATTACKS[12])
    text = "\n".join([str(error), *error.__notes__])
    assert not CONTROLS.search(text)
    assert "\\x1b]52;c;aGk=\\x07" in text
    assert len(ATTACKS) <= len(str(error).splitlines())
    assert "\n\tat shop" in str(KStreamError("it failed\n\tat shop"))
