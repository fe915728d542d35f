"""What becomes of an application's settings: nobody's setting is ignored in silence."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kstreamnb.driver.tabular import Tabular
from kstreamnb.driver.wording import counted
from kstreamnb.runtime.config import Config, StreamsSetting, streams_settings

_COMMON_MS = range(100, 501)
_COMMON = "where readers wait for commits, 100 to 500 ms are common"


class Answer(NamedTuple):
    """One setting: what it was given as, Kafka's default, what becomes of it, and in words.

    ``answer`` is "honoured", "translated", "client", "not needed" or "unknown".
    """

    name: str
    value: str
    default: str
    answer: str
    words: str


class ConfigReport(Tabular):
    """The answer to each setting, by name."""

    header = ("setting", "value", "Kafka's default", "answer", "")

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self.answers = answers

    def __getitem__(self, name: str) -> Answer:
        for answer in self.answers:
            if answer.name == name:
                return answer
        raise KeyError(name)

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @property
    def title(self) -> str:
        """How many settings got which answer."""
        kinds = sorted({each.answer for each in self})
        counts = [f"{sum(each.answer == kind for each in self)} {kind}" for kind in kinds]
        return f"{counted(len(self), 'setting')}: {', '.join(counts)}" if counts else "no settings"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Each setting."""
        return iter(self.answers)

    def __repr__(self) -> str:
        return str(self)


def config_report(config: Config | Mapping[str, Any] | None = None) -> ConfigReport:
    """Say what becomes of each setting: those given by their dotted names, or all of Kafka Streams' without any.

    Values of settings that only clients read are not shown: there are passwords among them.

    Raises: ConfigError for a value that makes no sense.

    Example:
        >>> for each in config_report({"application.id": "shop", "num.stream.threads": 4, "commit.intervall.ms": 100}):
        ...     print(f"{each.name}={each.value}: {each.answer}; {each.words}")
        application.id=shop: honoured; names internal topics, transactions and the group whose offsets show the lag
        commit.intervall.ms=: unknown; did you mean "commit.interval.ms"? It is handed to the Kafka client as it is
        num.stream.threads=4: translated; spark_session(cores=), or the cores of the cluster
    """
    settings = Config.of(config)
    if config is None:
        return ConfigReport(tuple(_answer(each, None, settings) for each in streams_settings().values()))
    given = settings.dotted() if isinstance(config, Config) else config
    known = streams_settings()
    answers = [
        _answer(known[name], value, settings) if name in known else _unlisted(name, value)
        for name, value in sorted(given.items())
    ]
    return ConfigReport(tuple(answers))


def _answer(setting: StreamsSetting, value: Any, settings: Config) -> Answer:
    shown = "" if value is None or setting.answer == "client" else str(getattr(value, "name", value))
    words = setting.words or "handed to the Kafka client"
    if setting.name == "commit.interval.ms":
        words += f"; {settings.commit_interval_ms} ms here"
        if value is not None and settings.commit_interval_ms not in _COMMON_MS:
            words += f": {_COMMON}"
    return Answer(setting.name, shown, setting.default, setting.answer, words)


def _unlisted(name: str, value: Any) -> Answer:
    """A setting that Kafka Streams does not have: the kit's own, a client's, or a mistake."""
    if "." not in name:
        return Answer(name, str(getattr(value, "name", value)), "", "honoured", "a setting under the kit's own name")
    near = difflib.get_close_matches(name, streams_settings(), 1, cutoff=0.85)
    if near:
        return Answer(name, "", "", "unknown", f'did you mean "{near[0]}"? It is handed to the Kafka client as it is')
    return Answer(name, "", "", "client", "handed to the Kafka client as it is")
