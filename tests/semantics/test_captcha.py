"""The captcha application: browsers with too many actions get a captcha; those that passed one are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, described


def ask(asked: Path | None, browser: str) -> None:
    """Ask a browser for a captcha: a line in a file."""
    if asked is not None:
        with asked.open("a") as file:
            file.write(f"Asking captcha for {browser}\n")


def unless_verified(count: int, verified: Any) -> int:
    """Return the number of actions, 0 once a captcha was passed."""
    return count if verified is None else 0


# --- S2-38, S2-39: two tables from one log ------------------------------------------------------------------------
def captcha_tables(asked: Path | None = None) -> ks.Topology:
    """Count the actions of each browser, join the passed captchas, and ask at the fifth action and each later one."""
    builder = ks.StreamsBuilder()
    logs = builder.stream("logs")
    actions = (
        logs.filter(lambda _, log: log["logger_name"] == "browser-actions")
        .group_by(lambda _, log: log["browserHash"])
        .aggregate(lambda: 0, lambda browser, log, count: count + 1, store="browserActionsCountStore")
    )
    verified = (
        logs.filter(lambda _, log: log["logger_name"] == "captcha")
        .group_by(lambda _, log: log["browserHash"])
        .reduce(lambda first, later: first, store="captchaStore")
    )
    counts = actions.left_join(verified, unless_verified).to_stream()
    counts.to("counts")
    counts.filter(lambda _, count: count >= 5).foreach(lambda browser, count: ask(asked, browser))
    return builder.build()


def logged(name: str, browser: str, *times: int) -> tuple[Row, ...]:
    """Lines of one logger about one browser."""
    return tuple(Row("logs", None, {"logger_name": name, "browserHash": browser}, at) for at in times)


CAPTCHA_INPUT = (
    *logged("browser-actions", "B1", 1, 2, 3, 4, 5, 6),
    *logged("captcha", "B1", 7),
    *logged("browser-actions", "B1", 8),
    *logged("captcha", "B2", 9),
    *logged("browser-actions", "B2", 10, 11, 12, 13, 14, 15),
)
CAPTCHA_COUNTS = [
    *(("B1", count, count) for count in range(1, 7)),
    ("B1", 0, 7),
    ("B1", 0, 8),
    *(("B2", 0, at) for at in range(10, 16)),
]
CAPTCHA = Scenario(captcha_tables, CAPTCHA_INPUT, {"counts": CAPTCHA_COUNTS})


def test_a_passed_captcha_resets_the_count(engine: Engine, tmp_path: Path) -> None:
    """S2-38, S2-39: counts until the captcha, 0 afterwards; a captcha at the fifth and sixth action only."""
    asked = tmp_path / "asked"
    scenario = Scenario(lambda: captcha_tables(asked), CAPTCHA_INPUT, {"counts": CAPTCHA_COUNTS})
    outcome = engine.check(scenario)
    assert asked.read_text().splitlines() == ["Asking captcha for B1"] * 2 * engine.copies
    assert outcome.store("browserActionsCountStore") == {"B1": 7, "B2": 6}
    assert outcome.store("captchaStore") == {
        browser: {"logger_name": "captcha", "browserHash": browser} for browser in ("B1", "B2")
    }


def test_the_captcha_application_is_cut_at_two_repartition_topics() -> None:
    """S2-38: logs are re-keyed in the first sub-topology, counted and joined in the second."""
    assert described("captcha_tables") == captcha_tables().describe()


@pytest.mark.parametrize("partitions", [1, 4])
def test_the_captcha_application_does_not_depend_on_partitions(engine: Engine, partitions: int) -> None:
    """S2-38: more partitions of the log change no count."""
    rows = tuple(Row("logs", str(n), row.value, row.timestamp) for n, row in enumerate(CAPTCHA_INPUT))
    engine.check(Scenario(captcha_tables, rows, {"counts": CAPTCHA_COUNTS}, {"logs": partitions}))


# --- S2-43: the captchas as a global table ------------------------------------------------------------------------
def captcha_global(asked: Path | None = None) -> ks.Topology:
    """The same with passed captchas in a global table, joined by a key selector."""
    builder = ks.StreamsBuilder()
    counts = builder.stream("browser-actions").group_by_key().count(store="browserActionsCountStore").to_stream()
    verified = builder.global_table("captcha-passed", store="captchaStore")
    allowed = counts.left_join(verified, unless_verified, key_selector=lambda browser, count: browser)
    allowed.to("counts")
    allowed.filter(lambda _, count: count >= 5).foreach(lambda browser, count: ask(asked, browser))
    return builder.build()


GLOBAL_INPUT = (
    *(Row("browser-actions", "B1", "click", at) for at in range(1, 7)),
    Row("captcha-passed", "B1", "yes", 7),
    Row("browser-actions", "B1", "click", 8),
)
GLOBAL_COUNTS = [*(("B1", count, count) for count in range(1, 7)), ("B1", 0, 8)]


@pytest.mark.parametrize(("actions", "passed"), [(1, 1), (4, 1), (4, 4), (4, 3)])
def test_a_global_table_needs_no_equal_partitions(engine: Engine, tmp_path: Path, actions: int, passed: int) -> None:
    """S2-43: every task sees the whole table; its updates alone produce no output."""
    asked = tmp_path / "asked"
    partitions = {"browser-actions": actions, "captcha-passed": passed}
    engine.check(Scenario(lambda: captcha_global(asked), GLOBAL_INPUT, {"counts": GLOBAL_COUNTS}, partitions))
    assert asked.read_text().splitlines() == ["Asking captcha for B1"] * 2 * engine.copies


def test_the_global_table_is_a_sub_topology_without_tasks() -> None:
    """S2-43: the description shows it as such."""
    assert described("captcha_global") == captcha_global().describe()


# --- S2-62: in a window -------------------------------------------------------------------------------------------
def captcha_windows(asked: Path | None = None) -> ks.Topology:
    """Actions in five seconds, every two seconds; the captchas by the window's own key."""
    builder = ks.StreamsBuilder()
    windows = ks.TimeWindows.of(size="5s", advance="2s")
    counts = builder.stream("log").group_by_key().windowed_by(windows).count(store="counterStore").to_stream()
    verified = builder.global_table("captcha-passed", store="captchaStore")
    allowed = counts.left_join(verified, unless_verified, key_selector=lambda window, count: window.key)
    often = allowed.filter(lambda _, count: count >= 5)
    often.map(lambda window, count: (window.key, f"{count} from {window.start}")).to("asked")
    return builder.build()


def test_who_acts_too_often_within_five_seconds_is_asked(engine: Engine) -> None:
    """S2-62: four times Y3: the fifth and the sixth action of two windows."""
    at_56 = (14 * 3600 + 11 * 60 + 56) * 1000
    actions = [
        ("Y0", -1000),
        ("Y2", -500),
        ("Y3", 0),
        ("Y3", 200),
        ("Y4", 500),
        *(("Y3", at) for at in (1000, 2000, 2200, 2400)),
    ]
    rows = tuple(Row("log", browser, "x", at_56 + at) for browser, at in actions)
    asked = engine.run(Scenario(captcha_windows, rows, {"asked": []})).topic("asked")
    expected = [f"{count} from {start}" for count in (5, 6) for start in (at_56 - 2000, at_56)]
    assert expected == [text for _, text, _ in asked]
    assert {"Y3"} == {browser for browser, _, _ in asked}
