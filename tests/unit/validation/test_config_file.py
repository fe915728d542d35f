"""Settings in YAML files and in properties."""

from __future__ import annotations

from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.validation.config_file import read_properties

LEVELS = """
spring:
  kafka:
    streams:
      application-id: real-time-analytics
      processing-guarantee: exactly_once_v2
      state-dir: /var/lib/kafka-streams
      commit-interval: 1000
"""
PROPERTIES = """
spring.kafka.streams:
  application-id: real-time-analytics
  properties:
    processing.guarantee: exactly_once_v2
    state.dir: /var/lib/kafka-streams
    commit.interval.ms: 1000
"""
FLAT = """
application.id: real-time-analytics
processing.guarantee: exactly_once_v2
state.dir: /var/lib/kafka-streams
commit_interval: 1s
"""


@pytest.mark.parametrize("text", [LEVELS, PROPERTIES, FLAT], ids=["levels", "properties", "flat"])
def test_a_file_in_spring_s_layout_is_read(tmp_path: Path, text: str) -> None:
    """S4-10: application id, guarantee, folder and interval, in any spelling."""
    file = tmp_path / "application.yml"
    file.write_text(text)
    config = ks.read_config(file)
    assert ("real-time-analytics", True, 1000) == (
        config.application_id,
        config.exactly_once,
        config.commit_interval_ms,
    )
    assert {"state.dir": "/var/lib/kafka-streams"} == config.others
    assert "translated" == ks.config_report(config)["state.dir"].answer


def test_properties_of_a_java_application_are_settings(tmp_path: Path) -> None:
    """S4-10: with Java's names, and in Spring's layout."""
    file = tmp_path / "shop.properties"
    for before in ("", "spring.kafka.streams.", "spring.kafka.streams.properties."):
        file.write_text(f"{before}application.id=shop\n{before}commit.interval.ms = 50\n")
        config = ks.read_config(file)
        assert ("shop", 50) == (config.application_id, config.commit_interval_ms)


def test_a_later_file_wins_and_may_hold_the_credentials(tmp_path: Path) -> None:
    """In whichever of the spellings, and whatever the format."""
    word = tmp_path / "client.properties"
    word.write_text("security.protocol=SASL_SSL\nsasl.password=s3cret\ncommit.interval.ms=50\n")
    for spelling in ("commit.interval.ms", "commit_interval", "commit-interval", "commit_interval_ms"):
        file = tmp_path / "application.yml"
        file.write_text(f"application.id: shop\n{spelling}: 70\n")
        config = ks.read_config(file, word)
        assert ("shop", 50) == (config.application_id, config.commit_interval_ms)
        assert "SASL_SSL" == config.client_settings("consumer")["security.protocol"]
        assert "s3cret" not in repr(config)
        assert 70 == ks.read_config(word, file).commit_interval_ms


def test_a_name_that_is_none_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """S4-10: nothing in the file is ignored."""
    file = tmp_path / "application.yml"
    file.write_text("aplication-id: shop\n")
    with pytest.raises(ks.errors.ConfigError) as error:
        ks.read_config(file)
    assert 'Hint: did you mean "application_id"?' in error.value.__notes__


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words\n"])
def test_a_file_without_settings_is_refused(tmp_path: Path, text: str) -> None:
    """The message contains its name, not its folder."""
    file = tmp_path / "application.yml"
    file.write_text(text)
    with pytest.raises(ks.errors.ConfigError, match=r'file "application\.yml" holds no settings'):
        ks.read_config(file)


def test_properties_are_read_as_java_reads_them(tmp_path: Path) -> None:
    """Comments, every separator, continued lines, escapes, and values with separators in them."""
    file = tmp_path / "client.properties"
    file.write_text(
        "# one \\\n! two\n\nsecurity.protocol = SASL_SSL\nclient.id:shop\nacks all\nempty=\n"
        'sasl.jaas.config=Plain required \\\n   username="a=b" \\\n   password="c:\\\\d\\u0021";\n'
    )
    assert {
        "security.protocol": "SASL_SSL",
        "client.id": "shop",
        "acks": "all",
        "empty": "",
        "sasl.jaas.config": r'Plain required username="a=b" password="c:\d!";',
    } == read_properties(file)
