"""Masks secrets in settings and addresses, for texts and displays."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SECRET = re.compile(
    r"password|passphrase|secret|\.pem|token|oauthbearer\.config|jaas|user\.info|credential|assertion"
    r"|(keystore|private|api|access|signing)[._-]?key$",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(?<![^\s,/\"'])[^\s,/\"'@]+:[^\s,/\"']*@")


def masked(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings without their secrets, for texts and displays.

    Example:
        >>> masked({"bootstrap.servers": "broker:9092", "sasl.password": "s3cret", "url": "http://me:s3cret@registry"})
        {'bootstrap.servers': 'broker:9092', 'sasl.password': '***', 'url': 'http://***@registry'}
    """
    return {
        name: "***" if _SECRET.search(name) and value else without_secrets(value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def without_secrets(text: str) -> str:
    """Mask user and password in the addresses of a text.

    Example:
        >>> without_secrets("SASL_SSL://me:pass@broker:9092,other:9092")
        'SASL_SSL://***@broker:9092,other:9092'
    """
    return _IN_ADDRESS.sub("***@", text)
