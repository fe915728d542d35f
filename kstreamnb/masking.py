"""Masks secrets in settings and texts, and escapes characters that would control a terminal or hide text."""

from __future__ import annotations

import re
from collections.abc import Mapping

INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufffe\uffff"
    r"\U000e0000-\U000e00ff]"  # tags repeat ASCII without a shape
)
_WITHIN_LINES = re.compile(r"[^\n\t]+")
_SECRET = re.compile(
    r"passw(or)?d|(^|[._-])pwd$|passphrase|secret|\.pem|token|oauthbearer\.config|jaas|user\.info|credential|assertion"
    r"|(keystore|private|api|access|signing)[._-]?key$",
    re.IGNORECASE,
)
# Bounded, and without two parts that both match the same characters: texts may be long, and written by strangers.
_IN_ADDRESS = re.compile(r"(?<![^\s,/\"'])[^\s,/\"'@:]+:[^\s,/\"']*@")
_IN_TEXT = re.compile(
    r"((?:passw(?:or)?d|pwd|passphrase|secret|token(?!s)|user\.info|credential|(?:api|access|private|signing)[._-]?key)"
    r"[\w.-]{0,40}(?:[=!]=|=|(?:\\?[\"'])?\s{0,9}(?::\s{0,9}[\w.\[\]]{1,40}\s{0,9})?(?:[=!]=|[=:])\s{0,9}(?=[a-z]{0,2}\\?[\"'])"
    r"|\\?[\"']\]\s{0,9}=\s{0,9}(?=[a-z]{0,2}\\?[\"'])))"
    # A text in three quotation marks, in escaped ones or in plain ones, maybe cut off; or one without.
    r"([a-z]{0,2}(?:(\"{3}|'{3}|\\[\"'])[^\n]*?(?:\3|$)|([\"'])(?:\\.|(?!\4)[^\\\n])*\4?)|[^\s,;&\"'()\[\]]+)",
    re.IGNORECASE | re.MULTILINE,
)


def clean(text: str) -> str:
    r"""Escape characters that control, reverse or hide text: the result is one visible line and legal in XML.

    Example:
        >>> clean("a" + chr(0x202E) + "b")
        'a\\u202eb'
    """
    if text.isprintable():
        return text
    return INVISIBLE.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def clean_lines(text: str) -> str:
    r"""Escape the same characters in a text of several lines, whose line ends and tabs stay.

    Example:
        >>> clean_lines("a" + chr(27) + "[2J" + chr(10) + "b")
        'a\\x1b[2J\nb'
    """
    return text if text.isprintable() else _WITHIN_LINES.sub(lambda line: clean(line[0]), text)


def is_secret(name: str) -> bool:
    """Return whether a setting of this name holds a secret.

    Example:
        >>> is_secret("sasl.password"), is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("bootstrap.servers")
        (True, True, False)
    """
    return _SECRET.search(name) is not None


def masked(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings without their secrets, for texts and displays.

    Example:
        >>> masked({"bootstrap.servers": "broker:9092", "sasl.password": "s3cret", "url": "http://me:s3cret@registry"})
        {'bootstrap.servers': 'broker:9092', 'sasl.password': '***', 'url': 'http://***@registry'}
    """
    return {
        name: "***" if is_secret(name) and value else without_secrets(value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def without_secrets(text: str) -> str:
    """Mask user and password in the addresses of a text, and what follows the name of a secret, as in code or options.

    Example:
        >>> without_secrets("SASL_SSL://me:pass@broker:9092,other:9092 ssl.key.password=pass")
        'SASL_SSL://***@broker:9092,other:9092 ssl.key.password=***'
    """
    return _IN_TEXT.sub(r"\1***", _IN_ADDRESS.sub("***@", text))
