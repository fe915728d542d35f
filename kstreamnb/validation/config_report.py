"""Reports how each setting is handled, so that none is silently ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kstreamnb.client_settings import java_client_settings, unsupported
from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.tables import Listing
from kstreamnb.errors import ConfigError
from kstreamnb.masking import without_secrets
from kstreamnb.runtime.context.config import Config, StreamsSetting, other_settings, streams_settings

_CLIENT = "passed to the Kafka client"
_JAVA_CLASS = re.compile(r"(\w+\.)+[\w$]+")
_COMMON_MS = range(100, 501)
_COMMON = "if readers wait for commits, 100 to 500 ms are common"


class ConfigReport(Listing[StreamsSetting]):
    """The answer to each setting, by name."""

    _listed = "answers"
    header = ("setting", "value", "Kafka's default", "answer", "")

    def __init__(self, answers: tuple[StreamsSetting, ...]) -> None:
        self.answers = answers

    def __getitem__(self, name: str) -> StreamsSetting:
        return {answer.name: answer for answer in self.answers}[name]

    @property
    def title(self) -> str:
        """Count the settings by answer."""
        kinds = sorted({each.answer for each in self})
        counts = [f"{sum(each.answer == kind for each in self)} {kind}" for kind in kinds]
        return f"{pluralize(len(self), 'setting')}: {', '.join(counts)}" if counts else "no settings"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Return the settings."""
        return iter(self.answers)

    def __repr__(self) -> str:
        return str(self)


def config_report(config: Config | Mapping[str, object] | None = None) -> ConfigReport:
    """Report how each setting is handled: the given ones, or all settings of Kafka Streams.

    Values of client settings are not shown, because they may be passwords.

    A class of a Java application that the kit does not have is "not supported", with what to use instead.

    Args:
        config: a `Config`, or settings by Kafka's names or those of `Config`; default all settings of Kafka Streams.

    Raises: ConfigError for an unknown name (it suggests the closest known one), and for another invalid value.

    Example:
        >>> for each in config_report({"application.id": "shop", "num.stream.threads": 4, "fetch.min.bytes": 100}):
        ...     print(f"{each.name}={each.value}: {each.answer}; {each.words}")
        application.id=shop: honoured; names internal topics, transactions and the group whose offsets show the lag
        fetch.min.bytes=: client; passed to the Kafka client
        num.stream.threads=4: translated; spark_session(cores=), or the cores of the cluster
    """
    check_arguments(config_report, locals())
    given = {} if config is None else config.dotted() if isinstance(config, Config) else config
    foreign = {name: _foreign_class(name, value) for name, value in given.items()}
    named = {name: value for name, value in given.items() if name not in other_settings() and not foreign[name]}
    settings = config if isinstance(config, Config) else Config.of(named)
    if config is None:
        return ConfigReport(tuple(_answer(each, None, settings) for each in streams_settings().values()))
    known, refused = streams_settings(), unsupported({_plain(name): value for name, value in given.items()})
    answers = [
        foreign[name] or (_answer(known[name], value, settings) if name in known else _unlisted(name, value, refused))
        for name, value in sorted(given.items())
    ]
    return ConfigReport(tuple(answers))


def _foreign_class(name: str, value: object) -> StreamsSetting | None:
    """Return the answer to a setting that names a class of Java that the kit does not have, or None."""
    if name not in streams_settings() or not isinstance(value, str) or not _JAVA_CLASS.fullmatch(value):
        return None
    try:
        Config.of({name: value})
    except ConfigError as error:
        words = f"{error}; {error.hint}"
        return streams_settings()[name]._replace(value=value, answer="not supported", words=words)
    return None


def _answer(setting: StreamsSetting, value: object, settings: Config) -> StreamsSetting:
    shown = "" if value is None or setting.answer == "client" else without_secrets(str(getattr(value, "name", value)))
    words = setting.words or _CLIENT
    if setting.name == "commit.interval.ms":
        words += f"; {settings.commit_interval_ms} ms here"
        if value is not None and settings.commit_interval_ms not in _COMMON_MS:
            words += f": {_COMMON}"
    return setting._replace(value=shown, words=words)


def _plain(name: str) -> str:
    """Return the name of a setting without the prefix of a client."""
    return re.sub(r"^(admin|((global|main|restore)\.)?consumer|producer|topic)\.", "", name)


def _unlisted(name: str, value: object, refused: Mapping[str, str]) -> StreamsSetting:
    """Answer for a setting that Kafka Streams does not have: one of kstreamnb's own, or a client's."""
    if "." not in name:
        return StreamsSetting(name, str(getattr(value, "name", value)), "", "honoured", "a setting by kstreamnb's name")
    plain = _plain(name)
    java = java_client_settings().get(plain, ("", "client", _CLIENT))
    default, answer, words = other_settings()[plain][2:] if plain in other_settings() else java
    answered = ("not supported", refused[plain]) if plain in refused else (answer, words)
    return StreamsSetting(name, "", default, *answered)
