"""Translates settings of Java's clients for librdkafka, and finds those that it has no counterpart for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath

from kstreamnb.data_files import rows_of
from kstreamnb.errors import ConfigError

_STORES = {"keystore": ("PKCS12", "PEM"), "truststore": ("PEM",)}
_CONVERT = "convert it with keytool and openssl: librdkafka reads keystores in PKCS12 or PEM, and truststores in PEM"
_LOGIN = re.compile(
    r'\s*[\w.]*\b(?:Plain|Scram|OAuthBearer)LoginModule\s+(?:required|requisite|sufficient)((?:\s+\w+\s*=\s*(?:"(?:[^"\\]|\\.)*"'
    r"|[^\s\"';]+))*)\s*;\s*"
)
_CREDENTIALS = {"username", "password"}, {"clientId", "clientSecret"}
_OF_LOGIN = {
    "clientId": "oauthbearer.client.id",
    "clientSecret": "oauthbearer.client.secret",
    "scope": "oauthbearer.scope",
}
_HANDLER = "sasl.login.callback.handler.class"
_TOKENS = ".OAuthBearerLoginCallbackHandler"
_OPTION = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"\';]+))')


@cache
def java_client_settings() -> Mapping[str, tuple[str, str, str]]:
    """Return, by name, the settings of Java's clients that librdkafka lacks: Java's default, the answer, and why.

    The answer is "translated" (the last text is the setting, unless it is a sentence), "not needed" or "not supported"
    (the last text says what to do).
    """
    rows = rows_of(__package__, "java_client_settings.tsv")
    return {name: (default, answer, words) for names, default, answer, words in rows for name in names.split()}


def unsupported(given: Mapping[str, object]) -> dict[str, str]:
    """Return the settings of Java's clients that have no counterpart, each with the user's way out.

    Args:
        given: settings of one client by their dotted names.

    Example:
        >>> unsupported({"ssl.keystore.type": "PEM", "ssl.keystore.location": "key.pem", "interceptor.classes": "A"})
        {'interceptor.classes': 'leave it out: do the same in an operator, a serde or a sink'}
    """
    java = java_client_settings()
    actions = {name: java[name][2] for name in given if name in java and java[name][1] == "not supported"}
    if not str(given.get(_HANDLER) or _TOKENS).endswith(_TOKENS):
        actions[_HANDLER] = java["sasl.client.callback.handler.class"][2]
    for store, kinds in _STORES.items():
        location = f"ssl.{store}.location"
        if given.get(location) and _store_type(given, store) not in kinds:
            actions[location] = _CONVERT
    if str(given.get("ssl.keystore.certificate.chain")).count("BEGIN CERTIFICATE") > 1:
        actions["ssl.keystore.certificate.chain"] = "write the chain to a file, and name it in ssl.certificate.location"
    jaas = given.get("sasl.jaas.config")
    if jaas and _login(str(jaas)).keys() - {"scope"} not in _CREDENTIALS:
        actions["sasl.jaas.config"] = (
            "give librdkafka's sasl.mechanism, with sasl.username and sasl.password, or settings of sasl.oauthbearer"
        )
    return actions


def for_librdkafka(given: Mapping[str, object]) -> dict[str, object]:
    r"""Return settings as librdkafka has them; those that a client here does not need are left out.

    Args:
        given: settings by the names of Java's clients or of librdkafka, whose own names win.

    Raises: ConfigError for a setting that has no counterpart.

    Example:
        >>> plain = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a\\"b";'
        >>> for_librdkafka({"sasl.jaas.config": plain, "max.request.size": 5000, "key.serializer": "shop.Keys"})
        {'sasl.username': 'me', 'sasl.password': 'a"b', 'message.max.bytes': 5000}
    """
    for name, remedy in unsupported(given).items():
        raise ConfigError(f'setting "{name}" of Java\'s clients is not supported as given', hint=remedy)
    java, translated, own = java_client_settings(), dict[str, object](), dict[str, object]()
    for name, value in given.items():
        if name == "sasl.jaas.config":
            login = _login(str(value))
            translated |= {f"sasl.{_OF_LOGIN.get(option, option)}": text for option, text in login.items()}
        elif name == "buffer.memory":
            translated["queue.buffering.max.kbytes"] = max(1, int(str(value)) // 1024)
        elif name == "batch.size" and not int(str(value)):  # no batches in Java, not allowed in librdkafka
            translated["batch.num.messages"] = 1
        elif name == "ssl.endpoint.identification.algorithm" and not value:
            translated[name] = "none"
        elif name == "ssl.keystore.location" and _store_type(given, "keystore") == "PEM":
            translated |= {"ssl.key.location": value, "ssl.certificate.location": value}
        elif name not in java:
            own[name] = value
        elif java[name][1] == "translated" and " " not in java[name][2]:
            translated[java[name][2]] = value
    if given.get("sasl.oauthbearer.token.endpoint.url"):
        translated["sasl.oauthbearer.method"] = "oidc"
    if "ssl.key.location" in translated:
        own.pop("ssl.keystore.password", None)
    return {**translated, **own}


def _store_type(given: Mapping[str, object], store: str) -> str:
    """Return the type of a keystore or truststore; Java takes one without a type for JKS, which may also be PKCS12."""
    named = str(given.get(f"ssl.{store}.type") or "").upper()
    jks = store == "truststore" or PurePath(str(given.get(f"ssl.{store}.location"))).suffix.lower() == ".jks"
    return named or ("JKS" if jks else "PKCS12")


def _login(jaas: str) -> dict[str, str]:
    """Return the options of a login by name and password, or by a client's credentials; nothing for other modules."""
    match = _LOGIN.fullmatch(jaas)
    options = [] if match is None else _OPTION.findall(match[1])
    return {name: re.sub(r"\\(.)", r"\1", quoted) or plain for name, quoted, plain in options}
