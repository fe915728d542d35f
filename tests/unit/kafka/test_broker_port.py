"""The port of a local broker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kstreamnb.errors import BrokerError
from kstreamnb.kafka.broker_process import LocalBroker


def test_a_broker_over_the_data_of_an_earlier_one_has_its_port_if_it_is_free(tmp_path: Path) -> None:
    """Programs know its address; a port that another process has taken meanwhile is replaced."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "server.properties").write_text(
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:1\n"
        )
        assert f"127.0.0.1:{port}" != LocalBroker(data=tmp_path)._addresses()[0]
    assert f"127.0.0.1:{port}" == LocalBroker(data=tmp_path)._addresses()[0]


def test_a_chosen_port_that_is_in_use_is_refused(tmp_path: Path) -> None:
    """It goes before that of the data."""
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = LocalBroker(data=tmp_path, port=taken.getsockname()[1])
        with pytest.raises(BrokerError, match=f"port {broker.port} of this machine is in use"):
            broker._addresses()
    assert f"127.0.0.1:{broker.port}" == broker._addresses()[0]
