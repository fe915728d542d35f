"""Requests to a group coordinator that is not available yet, as after a broker's start."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.application_reset import committed_positions, reset_positions

LOADS, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
API_VERSIONS, METADATA, FIND_COORDINATOR, OFFSET_FETCH = 18, 3, 10, 9
_LATEST = {API_VERSIONS: 0, METADATA: 1, FIND_COORDINATOR: 0, OFFSET_FETCH: 2}
_UNSUPPORTED = 35


def _text(said: str) -> bytes:
    return struct.pack(">h", len(said)) + said.encode()


class Coordinator:
    """A node that implements just enough of Kafka's protocol: one topic, one group, and errors before its offsets."""

    def __init__(self, errors: list[int], offset: int, mark: str) -> None:
        self._errors, self._offset, self._mark = errors, offset, mark
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        host, port = self._socket.getsockname()
        self.servers = f"{host}:{port}"
        self._node = struct.pack(">i", 1) + _text(host) + struct.pack(">i", port)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in (self._socket, *self._open):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:  # closed
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, client.makefile("rb") as asked:
                while size := asked.read(4):
                    kind, version, number = struct.unpack_from(">hhi", asked.read(*struct.unpack(">i", size)))
                    said = struct.pack(">i", number) + self._answer(kind, version)
                    client.sendall(struct.pack(">i", len(said)) + said)
        except OSError:  # the client or the test has ended
            return

    def _answer(self, kind: int, version: int) -> bytes:
        if kind == API_VERSIONS:
            known = b"".join(struct.pack(">hhh", each, 0, last) for each, last in _LATEST.items())
            return struct.pack(">hi", _UNSUPPORTED, 0) if version else struct.pack(">hi", 0, len(_LATEST)) + known
        if kind == METADATA:
            partition = struct.pack(">hiiiiii", 0, 0, 1, 1, 1, 1, 1)
            topic = struct.pack(">h", 0) + _text("orders") + b"\0" + struct.pack(">i", 1) + partition
            controller = struct.pack(">hi", -1, 1)
            return struct.pack(">i", 1) + self._node + controller + struct.pack(">i", 1) + topic
        if kind == FIND_COORDINATOR:
            return struct.pack(">h", 0) + self._node
        if self._errors:
            return struct.pack(">ih", 0, self._errors.pop(0))
        place = struct.pack(">iiq", 1, 0, self._offset) + _text(self._mark) + struct.pack(">h", 0)
        return struct.pack(">i", 1) + _text("orders") + place + struct.pack(">h", 0)


@pytest.fixture
def coordinator(request: pytest.FixtureRequest) -> Iterator[Coordinator]:
    made = Coordinator(*request.param)
    yield made
    made.close()


@pytest.mark.parametrize(
    "coordinator",
    [([error], 7, "") for error in (LOADS, NOT_AVAILABLE, NOT_COORDINATOR)],
    ids=["loads", "not available", "moved"],
    indirect=True,
)
def test_offsets_of_a_group_are_waited_for_until_its_coordinator_is_there(coordinator: Coordinator) -> None:
    """An admin client of librdkafka would abort this process at "not coordinator"."""
    assert {"orders": {0: 7}} == committed_positions(Admin(coordinator.servers), "shop")


@pytest.mark.parametrize(
    ("coordinator", "found"),
    [
        (([NOT_COORDINATOR], -1, ""), {}),
        (([NOT_COORDINATOR], 7, "by the application"), {}),
        (([NOT_COORDINATOR], 7, "set by a reset"), {"orders": {0: 7}}),
    ],
    ids=["no group", "committed", "set"],
    indirect=["coordinator"],
)
def test_only_offsets_that_a_reset_has_set_say_where_to_begin(
    coordinator: Coordinator, found: dict[str, dict[int, int]]
) -> None:
    """The first deployment after a broker's start makes this request, too."""
    assert found == reset_positions(Admin(coordinator.servers), "shop")
