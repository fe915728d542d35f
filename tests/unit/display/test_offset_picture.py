"""A log and a group draw themselves: offsets in a row, with what is committed, read, visible and written."""

from __future__ import annotations

from xml.etree import ElementTree

import kstreamnb as ks
from kstreamnb.display.mime import mimebundle

SVG = "{http://www.w3.org/2000/svg}"


def picture(model: object) -> ElementTree.Element:
    """Return the picture within the display of a model."""
    page = mimebundle(model)["text/html"]
    return ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def kinds(drawn: ElementTree.Element) -> list[str | None]:
    """Return how each offset is painted, in order."""
    return [each.get("class") for each in drawn.findall(f"{SVG}rect") if each.get("class") != "ks-ground"]


def texts(drawn: ElementTree.Element) -> list[str]:
    """All labels."""
    return ["".join(each.itertext()) for each in drawn.findall(f"{SVG}text")]


def reading_group() -> ks.simulation.ConsumerGroup:
    """One record committed of six read; three more are not replicated."""
    group = ks.simulation.ConsumerGroup("readers", {"logs": 1}, auto_offset_reset="earliest")
    group.log.append("logs-0", 6)
    group.log.append("logs-0", 3, replicated=False)
    group.join("c1")
    group.poll("c1", max_records=1)
    group.commit("c1")
    group.poll("c1")
    return group


def test_a_group_draws_committed_offset_position_high_watermark_and_end() -> None:
    """S2-18, S2-22: committed 1, position 6, high watermark 6, end 9; the last three records are not visible."""
    group = reading_group()
    for model in (group, group.positions):
        drawn = picture(model)
        assert ["ks-committed", *["ks-read"] * 5, *["ks-cell ks-hidden"] * 3] == kinds(drawn)
        assert {"committed 1", "position, high watermark 6", "end 9", "read by c1", "0", "8"} <= set(texts(drawn))
        description = drawn.find(f"{SVG}desc")
        assert description is not None
        assert "logs-0 read by c1: committed 1, position and high watermark 6, end 9" == description.text
    assert 5 == group.positions[0].lag


def test_a_log_draws_its_partitions() -> None:
    """S2-01: records in each partition by offset; only their number and the watermark are shown."""
    log = ks.simulation.Log()
    log.create_topic("logins", partitions=2)
    for user in ("tom", "ann", "tom"):
        log.append("logins", user, "in")
    for model in (log, log.describe("logins")):
        assert ["ks-cell"] * 3 == kinds(picture(model))
        assert {"logins-0", "logins-1", "high watermark, end 1", "high watermark, end 2"} <= set(texts(picture(model)))


def test_of_a_long_partition_the_last_records_are_drawn() -> None:
    """Offsets before the visible range are marked at the edge."""
    group = ks.simulation.ConsumerGroup("readers", {"logs": 1}, auto_offset_reset="earliest", max_poll_records=10)
    group.log.append("logs-0", 1_000)
    group.join("c1")
    group.poll("c1")
    group.commit("c1")
    drawn = picture(group)
    assert 22 == len(kinds(drawn))
    assert {"978", "999", "…", "← committed, position 10"} <= set(texts(drawn))


def test_a_group_without_partitions_is_a_table() -> None:
    """Nothing to draw."""
    assert "<svg" not in mimebundle(ks.simulation.Log())["text/html"]


def test_long_names_and_marks_at_the_end_stay_inside_the_picture() -> None:
    """Names once ran into the records, and "high watermark, end 40" was cut off at the right edge."""
    log = ks.simulation.Log()
    topic = "registrations-of-the-european-subsidiary"
    log.create_topic(topic)
    for number in range(40):
        log.append(topic, "key", number, at=number)
    drawn = picture(log)
    name, *_ = drawn.findall(f"{SVG}text")
    first = float(drawn.findall(f"{SVG}rect")[1].get("x") or 0)
    assert "".join(name.itertext()) == f"{topic}-0"
    assert 6 + 5 * len(topic) < first
    mark = next(each for each in drawn.findall(f"{SVG}text") if "high watermark" in "".join(each.itertext()))
    assert float(mark.get("x") or 0) + 5 * len("high watermark, end 40") < float(drawn.get("width") or 0)
