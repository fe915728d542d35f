"""Each topology of the table run by Java, by the kit, and by one after the other: results are equal, or the reason is
documented.
"""

from __future__ import annotations

import pytest

from tests.java.feeds import Records
from tests.java.lab import Lab, behind_repartition, driven
from tests.java.topologies import ALL, build

pytestmark = [pytest.mark.java, pytest.mark.slow]


LUCK = {
    "table-group": "behind a repartition Java's order is that in which its tasks happened to write",
    "foreign-key-join": "answers that another subscription has overtaken are dropped: only last values are equal",
    "regroup": "behind a repartition Java's order is that in which its tasks happened to write",
    "regroup-windows": "the windows of a slow task are closed by a fast one: Java drops its records as late",
}
"""Topologies in which two runs of Java differ from each other."""


def final(records: Records) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    return {key: value for rows in records.values() for key, value, _ in rows}


def agree(name: str, way: str, one: Records, other: Records) -> bool:
    """Compare two runs, allowing the differences that two runs of Java may have; print a line of the table."""
    equal = one == other
    print(f"\n{name:28} {way:20} {'equal' if equal else LUCK.get(name, 'DIFFERENT')}")
    if name == "regroup-windows":
        return bool(one)
    return final(one) == final(other) if name in LUCK else equal


@pytest.mark.parametrize("name", ALL)
def test_the_description_is_javas(lab: Lab, name: str) -> None:
    """S0-1: names and numbers, which determine the names of changelogs."""
    assert str(build(name, "p").describe()).strip() == lab.java.describe(name).strip()


@pytest.mark.parametrize("name", ALL)
def test_driver_and_java_agree(lab: Lab, name: str) -> None:
    """S0-1: every output partition."""
    assert agree(name, "driver", driven(name), lab.alone(name))


@pytest.mark.parametrize("name", ["table-group", "regroup", "regroup-windows"])
def test_over_javas_repartition_topic_the_kit_and_java_agree(lab: Lab, name: str) -> None:
    """S0-1: only the order of the repartition topic is nondeterministic."""
    assert behind_repartition(lab, name) == lab.alone(name)


@pytest.mark.parametrize("name", ALL)
def test_spark_and_java_agree(lab: Lab, name: str) -> None:
    """S0-20: every output partition."""
    assert agree(name, "Spark", lab.on_spark(name), lab.alone(name))


@pytest.mark.parametrize("name", ALL)
def test_java_continues_the_kit(lab: Lab, name: str) -> None:
    """S0-22: half by the kit and half by Java equals Java with a restart."""
    assert agree(name, "kit, then Java", lab.kit_then_java(name), lab.twice(name))


@pytest.mark.parametrize("name", ALL)
def test_the_kit_continues_java(lab: Lab, name: str) -> None:
    """S0-22: half by Java and half by the kit equals Java with a restart."""
    assert agree(name, "Java, then kit", lab.java_then_kit(name), lab.twice(name))
