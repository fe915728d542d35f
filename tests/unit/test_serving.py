"""Interactive queries over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

import kstreamnb as ks
from kstreamnb.tools import store_app, store_server
from kstreamnb.tools.store_server import LocalServer

MINUTE_MS = 60_000
SEVEN = {"key": 7, "value": 2.5, "timestamp": 0}


@pytest.fixture
def clicks() -> ks.TopologyTestDriver:
    """Five clicks of two users, 20 s apart, counted in total, by the minute and by session."""
    builder = ks.StreamsBuilder("site")
    users = builder.stream("clicks").group_by_key()
    users.count(store="clicks-per-user")
    users.windowed_by(ks.TimeWindows.of(size="1m", grace="1h")).count(store="per-minute")
    users.windowed_by(ks.SessionWindows.of(gap="30s", grace="1h")).count(store="visits")
    builder.stream("prices", key_serde="long", value_serde="double").to_table(store="prices")
    builder.table("names", ks.Materialized.as_(ks.Stores.persistent_versioned_key_value_store("names", "1h")))
    driver = ks.TopologyTestDriver(builder.build())
    for number in range(5):
        driver.create_input_topic("clicks").pipe_input(f"u{number % 2}", "x", at=number * 20_000)
    driver.create_input_topic("prices").pipe_input(7, 2.5, at=0)
    driver.create_input_topic("names").pipe_key_value_list([("u1", "old"), ("u1", "new")], start=0, advance="2s")
    return driver


@pytest.fixture
def server(clicks: ks.TopologyTestDriver) -> Iterator[ks.monitoring.StoreServer]:
    with ks.monitoring.serve(clicks) as server:
        yield server


def ask(server: ks.monitoring.StoreServer, path: str) -> tuple[int, Any]:
    """Status and answer."""
    try:
        with urllib.request.urlopen(server.url + path, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_key_is_answered_with_its_row(server: ks.monitoring.StoreServer) -> None:
    """S1-32: a service asks the application itself for an aggregate."""
    assert ask(server, "/stores/clicks-per-user/u1") == (200, {"key": "u1", "value": 2, "timestamp": 60_000})


def test_an_unknown_key_is_not_found(server: ks.monitoring.StoreServer) -> None:
    """S1-32: 404 for a key that the store does not have."""
    status, answer = ask(server, "/stores/clicks-per-user/u9")
    assert (status, answer["error"]) == (404, 'store "clicks-per-user" has nothing for key "u9"')


def test_an_unknown_store_is_told_the_names_there_are_and_the_nearest(server: ks.monitoring.StoreServer) -> None:
    """S1-32, S2-49: the text writes "Count" for a store created as "Counts"."""
    status, answer = ask(server, "/stores/clicks-per-usr/u1")
    assert status == 404
    assert "existing names: clicks-per-user, names, per-minute, prices, visits" in answer["error"]
    assert 'did you mean "clicks-per-user"?' in answer["error"]


def test_rows_come_in_the_order_of_the_store_between_keys_and_by_prefix(server: ks.monitoring.StoreServer) -> None:
    """Ranges are those of the store: both ends inclusive, a missing end is open."""
    everything = ask(server, "/stores/clicks-per-user")[1]
    assert [row["key"] for row in everything] == ["u0", "u1"]
    assert ask(server, "/stores/clicks-per-user?from=u1")[1] == everything[1:]
    assert ask(server, "/stores/clicks-per-user?from=u0&to=u0")[1] == everything[:1]
    assert ask(server, "/stores/clicks-per-user?prefix=u&limit=1")[1] == everything[:1]


def test_windows_and_sessions_carry_their_bounds(server: ks.monitoring.StoreServer) -> None:
    """Windows of a key between two times, and its sessions."""
    minutes = ask(server, "/stores/per-minute/u0")[1]["rows"]
    assert [(row["start"], row["end"], row["value"]) for row in minutes] == [
        (0, MINUTE_MS, 2),
        (MINUTE_MS, 2 * MINUTE_MS, 1),
    ]
    assert ask(server, f"/stores/per-minute/u0?from={MINUTE_MS}")[1]["rows"] == minutes[1:]
    assert [row["key"] for row in ask(server, "/stores/per-minute?to=0")[1]] == ["u0", "u1"]
    visits = ask(server, "/stores/visits/u1")[1]["rows"]
    assert [(row["start"], row["end"], row["value"]) for row in visits] == [(20_000, 20_000, 1), (60_000, 60_000, 1)]


def test_keys_that_are_no_text_are_written_as_json(server: ks.monitoring.StoreServer) -> None:
    """A number in the address is parsed for the store's serde; anything else is a bad request."""
    assert ask(server, "/stores/prices/7") == (200, {"key": 7, "value": 2.5, "timestamp": 0})
    status, answer = ask(server, "/stores/prices/seven")
    assert (status, answer["error"]) == (400, '"seven" is not a key of store "prices", whose serde is long')


@pytest.mark.parametrize(
    "path",
    [
        "/stores/per-minute?from=abc",
        f"/stores/per-minute?to={2**63}",
        "/stores/per-minute?from=",
        "/stores/per-minute?from=2026-01-01T09:00",
        "/stores/per-minute?from=2026-01-01+09:00",
        "/stores/per-minute?from=2026-01-01T09:00+",
        "/stores?colour=red",
        "/stores?limit=1",
        "/health?limit=1",
        "/health?key=u1",
        "/stores/per-minute?prefix=u",
        "/stores/visits?prefix=u",
        "/stores/clicks-per-user?as_of=0",
        "/stores/clicks-per-user?prefix=u&from=u0",
        "/stores/clicks-per-user?limit=1&limit=2",
        "/stores/clicks-per-user?store=visits",
        "/stores/clicks-per-user/u1?as_of=0",
        "/stores/clicks-per-user/u1?limit=1",
        "/stores/per-minute/u1?as_of=0",
        "/stores/visits/u1?limit=none",
        "/stores/names",
        "/stores/names?as_of=0",
        "/stores/names/u1?from=0",
        "/stores/names/u1?as_of=",
        *(f"/stores/clicks-per-user?limit={limit}" for limit in ("x", "-1", "0", "1001", "%C2%B2", "1e3", "9" * 5_000)),
        f"/stores/visits?from={'9' * 5_000}",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(server: ks.monitoring.StoreServer, path: str) -> None:
    """400 with the reason, never an empty answer."""
    status, answer = ask(server, path)
    assert status == 400
    assert answer["error"]
    assert not answer["error"].startswith("StateError")


def test_a_refused_option_is_answered_with_those_that_there_are(server: ks.monitoring.StoreServer) -> None:
    """By kind of store, for its rows and for those of a key."""
    for path, text in {
        "/stores/per-minute?prefix=u": "unknown option prefix: a window store takes limit, from, to",
        "/stores/clicks-per-user/u1?as_of=0": "unknown option as_of: a key of a key_value store takes no options",
        "/stores/names/u1?to=0": "unknown option to: a key of a versioned store takes as_of",
        "/stores/clicks-per-user?from=a&prefix=b": "prefix cannot be combined with from and to",
        "/stores/clicks-per-user?limit=1&limit=2": "option limit is given 2 times",
        "/stores/per-minute?to=noon": "to \"noon\" is not an instant: Invalid isoformat string: 'noon'",
        "/stores/per-minute?to=2026-01-01+09:00": (
            'to "2026-01-01 09:00" has no time zone: the same text means a different instant in each zone'
        ),
        "/health?key=u1": "unknown option key: /health takes store",
    }.items():
        assert ask(server, path) == (400, {"error": text}), path


def test_times_are_instants_in_any_form(server: ks.monitoring.StoreServer) -> None:
    """Milliseconds and ISO text; sessions of a key, and versions, have a time as windows do."""
    minute = ask(server, "/stores/per-minute/u0?from=60000")
    assert minute[1]["rows"][0]["start"] == MINUTE_MS
    assert ask(server, "/stores/per-minute/u0?from=1970-01-01T00:01Z") == minute
    assert [row["start"] for row in ask(server, "/stores/visits/u1?from=1970-01-01T00:00:30Z")[1]["rows"]] == [60_000]
    for offset in ("T01:01%2B01:00", "T01:01+01:00", "%2001:01:00+0100", "T02+01:59"):
        assert ask(server, f"/stores/per-minute/u0?from=1970-01-01{offset}") == minute, offset
    assert len(ask(server, "/stores/visits/u1?limit=1")[1]["rows"]) == 1
    assert ask(server, "/stores/names/u1?as_of=1970-01-01T00:00:01Z")[1]["value"] == "old"
    assert ask(server, "/stores/names/u1")[1]["value"] == "new"


def test_a_store_of_an_operator_has_no_rows_for_readers() -> None:
    """400 instead of an error of the server, in a driver and in a cluster."""
    builder = ks.StreamsBuilder("site")
    counts = builder.stream("clicks").group_by_key().windowed_by(ks.TimeWindows.of("1m", grace="0s")).count()
    counts.suppress(ks.Suppressed.until_window_closes(name="held")).to_stream().to("out")
    topology = builder.build()
    for application in (ks.TopologyTestDriver(topology), ks.simulation.ClusterDriver(topology).application):
        name = next(name for name in topology.stores if "held" in name)
        status, body = ks.monitoring.StoreApp(application).answer(f"/stores/{name}", "")
        assert (status, json.loads(body)["error"]) == (
            400,
            f'store "{name}" serves an operator and has no rows for readers',
        )


def _raw(server: LocalServer, *lines: str) -> str:
    """Send a request line by line, and return what comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


SERVERS: dict[str, Callable[..., Any]] = {
    "/stores": ks.monitoring.serve,
    "/metrics": lambda _, **options: ks.monitoring.serve_metrics(**options),
}


@pytest.mark.parametrize("path", SERVERS)
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:80", 200),
        ("localhost", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("[::1", 400),
        ("", 403),
        ("stores.shop", 200),
    ],
)
def test_a_page_cannot_read_stores_or_metrics_under_its_own_name(
    clicks: ks.TopologyTestDriver, path: str, host: str, status: int
) -> None:
    """DNS rebinding: the browser sends the page's host name, which is not one of the server's."""
    with SERVERS[path](clicks, hosts=["stores.shop"]) as server:
        assert f" {status} " in _raw(server, f"GET {path} HTTP/1.1", f"Host: {host}").splitlines()[0]


@pytest.mark.parametrize("path", SERVERS)
def test_a_token_is_asked_for_if_there_is_one(clicks: ks.TopologyTestDriver, path: str) -> None:
    """401 without it, or with another one."""
    with SERVERS[path](clicks, token="hush") as server:
        lines = f"GET {path} HTTP/1.1", "Host: localhost"
        assert " 401 " in _raw(server, *lines)
        assert " 401 " in _raw(server, *lines, "Authorization: Bearer other")
        assert " 200 " in _raw(server, *lines, "Authorization: Bearer hush")


@pytest.mark.parametrize("path", SERVERS)
def test_clients_that_send_half_a_request_are_disconnected(
    clicks: ks.TopologyTestDriver, path: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """They use a bounded number of threads for a bounded time; a client that disconnects leaves no traceback."""
    monkeypatch.setattr(store_server._Handler, "timeout", 1.0)
    before = threading.active_count()
    with SERVERS[path](clicks) as server:
        halves = [socket.create_connection(("127.0.0.1", server.port), 10) for _ in range(100)]
        for half in halves:
            with suppress(OSError):  # those beyond the limit are closed
                half.sendall(b"GET /sto")
        assert threading.active_count() <= before + 1 + store_server._MOST_CONNECTIONS
        for half in halves:
            with suppress(ConnectionError):
                assert half.recv(10) == b""
            half.close()
        assert " 200 " in _raw(server, f"GET {path} HTTP/1.1", "Host: localhost")
        with socket.create_connection(("127.0.0.1", server.port), 10) as rude:
            rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            rude.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert " 200 " in _raw(server, f"GET {path} HTTP/1.1", "Host: localhost")
    assert capfd.readouterr() == ("", "")


def test_a_client_that_takes_too_long_is_disconnected(
    clicks: ks.TopologyTestDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then does not keep a connection open forever."""
    monkeypatch.setattr(store_server, "_REQUEST_S", 0.5)
    with ks.monitoring.serve(clicks) as server, socket.create_connection(("127.0.0.1", server.port), 10) as slow:
        began, error = time.monotonic(), None
        while error is None and time.monotonic() - began < 20:
            try:
                slow.sendall(b"G")
            except OSError as broken:
                error = broken
            time.sleep(0.05)
        assert error is not None
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("scope", "status", "content"),
    [
        ({"method": "GET", "path": "/stores/prices/7"}, 200, {"key": 7, "value": 2.5, "timestamp": 0}),
        (
            {"method": "GET", "path": "/shop/stores/prices/7", "root_path": "/shop"},
            200,
            {"key": 7, "value": 2.5, "timestamp": 0},
        ),
        ({"method": "GET", "path": "/stores/prices/9"}, 404, {"error": 'store "prices" has nothing for key 9'}),
        ({"method": "PUT", "path": "/stores/prices/7"}, 405, {"error": "stores are read only: use GET"}),
    ],
)
def test_the_stores_can_be_mounted_in_a_service(
    clicks: ks.TopologyTestDriver, scope: dict[str, Any], status: int, content: Any
) -> None:
    """An ASGI application: the service provides the sign-in."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = ks.monitoring.StoreApp(clicks)
    asyncio.run(app({"type": "http", "query_string": b"", **scope}, receive, send))
    assert (sent[0]["status"], json.loads(sent[1]["body"])) == (status, content)
    assert (b"content-type", b"application/json; charset=utf-8") in sent[0]["headers"]


class Keeping(ks.Processor):
    """Puts each record into a store, with its headers."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Find the store."""
        self.store: Any = context.get_state_store("prices")

    def process(self, record: ks.Record) -> None:
        """Put the record."""
        self.store.put(record.key, ks.ValueTimestampHeaders(record.value, record.timestamp, record.headers))


def test_rows_with_headers_are_served_with_them() -> None:
    """S2-49: bytes as hexadecimal digits, None as null."""
    builder = ks.StreamsBuilder("shop")
    store = ks.Stores.persistent_timestamped_key_value_store_with_headers("prices", value_serde="long")
    builder.add_state_store(store)
    builder.stream("in", value_serde="long").process(Keeping, "prices")
    driver = ks.TopologyTestDriver(builder.build())
    headers = (("trace", b"\x07\xff"), ("empty", None))
    driver.create_input_topic("in").pipe_input("shoe", 1, at=3, headers=headers)
    status, body = ks.monitoring.StoreApp(driver).answer("/stores/prices/shoe", "")
    shown = [["trace", "07ff"], ["empty", None]]
    assert (status, json.loads(body)) == (200, {"key": "shoe", "value": 1, "timestamp": 3, "headers": shown})


def test_nothing_can_be_written(server: ks.monitoring.StoreServer) -> None:
    """S2-49: read only; the served view has no put either."""
    request = urllib.request.Request(server.url + "/stores/clicks-per-user/u1", data=b"{}", method="PUT")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(request, timeout=10)


def test_a_running_application_with_a_readable_store_is_healthy(server: ks.monitoring.StoreServer) -> None:
    """S4-52, S3-15: 200 and the value of the key that the check requests."""
    status, answer = ask(server, "/health?store=clicks-per-user&key=u1")
    assert (status, answer["state"], answer["value"]) == (200, "running", 2)


def test_a_key_of_another_instance_is_answered_with_that_instance() -> None:
    """S1-32: members named by their addresses share four partitions; the holder of a key moves with its partition."""
    builder = ks.StreamsBuilder("site")
    builder.stream("clicks").group_by_key().count(store="clicks-per-user")
    cluster = ks.simulation.ClusterDriver(builder.build(), partitions=4)
    users = [f"u{n}" for n in range(20)]
    for user in users:
        cluster.create_input_topic("clicks").pipe_input(user, "home", at=7)
    cluster.run_ready()
    group = ks.simulation.ConsumerGroup("site", {"clicks": 4}, standby_replicas=1)
    addresses = ("10.0.0.7:8080", "10.0.0.8:8080")
    for address in addresses:
        group.join(address)
    tasks = cluster.application._thread.tasks
    rows = {f"clicks-{id[2:]}": {key for key, _ in task.task.stores["clicks-per-user"].all()}
            for id, task in tasks.items()}  # fmt: skip
    found = {user: group.holder_of("clicks", user) for user in users}
    for user, holder in found.items():
        assert user in rows[holder.partition], "the partition whose task has the row"
        assert holder.partition in group.assignment[holder.member]
        assert holder.standbys == tuple(address for address in addresses if address != holder.member)
    assert {holder.member for holder in found.values()} == {*addresses}
    moved = next(user for user in users if found[user].member == addresses[1])
    group.crash(addresses[1])
    assert group.holder_of("clicks", moved) == found[moved], "until the group has noticed"
    group.advance_wall_clock_time("45s")
    assert group.holder_of("clicks", moved) == (found[moved].partition, addresses[0], ())
    group.leave(addresses[0])
    assert group.holder_of("clicks", moved).member == ""
    with pytest.raises(ks.errors.EngineError, match='topic "click" does not exist') as raised:
        group.holder_of("click", "u2")
    assert raised.value.hint == 'did you mean "clicks"?'


def test_rows_of_an_application_have_their_timestamps() -> None:
    """S1-32: a cluster's application answers as the test driver does."""
    builder = ks.StreamsBuilder("site")
    builder.stream("clicks").group_by_key().count(store="clicks-per-user")
    cluster = ks.simulation.ClusterDriver(builder.build())
    cluster.create_input_topic("clicks").pipe_input("u1", "home", at=7)
    cluster.run_ready()
    with ks.monitoring.serve(cluster.application) as server:
        assert ask(server, "/stores/clicks-per-user") == (200, [{"key": "u1", "value": 1, "timestamp": 7}])


def test_a_crashed_application_is_not_healthy_until_it_runs_again() -> None:
    """S4-52: 503 while the application is down, so that a supervisor restarts it."""
    builder = ks.StreamsBuilder("site")
    builder.stream("clicks").group_by_key().count(store="clicks-per-user")
    cluster = ks.simulation.ClusterDriver(builder.build())
    with ks.monitoring.serve(cluster.application) as server:
        assert ask(server, "/health")[0] == 200
        cluster.application.crash()
        status, answer = ask(server, "/health?store=clicks-per-user&key=u1")
        assert (status, answer["error"]) == (503, "the application is not running: crashed")
        cluster.application.restart()
        assert ask(server, "/health?store=clicks-per-user&key=u1")[0] == 200


def test_two_clients_at_once_leave_a_drivers_store_intact() -> None:
    """Reading sorts keys that came since the last reading: the first client is paused in the middle of that."""
    builder = ks.StreamsBuilder("shop")
    builder.table("prices", store="prices")
    driver, sorts, go = ks.TopologyTestDriver(builder.build()), threading.Event(), threading.Event()
    driver.create_input_topic("prices").pipe_key_value_list([(f"k{number}", number) for number in range(9)])
    app, answers = ks.monitoring.StoreApp(driver), list[bytes]()

    def pause(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_name == "entries" and "fresh" in frame.f_locals and not sorts.is_set():
            sorts.set()
            go.wait(60)
        return pause

    def read(trace: Any = None) -> None:
        sys.settrace(trace)
        answers.append(app.answer("/stores/prices", "from=k1")[1])
        sys.settrace(None)

    first, second = threading.Thread(target=read, args=(pause,)), threading.Thread(target=read)
    first.start()
    assert sorts.wait(60)
    second.start()
    second.join(0.5)  # it waits for its turn, or has finished
    assert app.answer("/health", "")[0] == 200
    go.set()
    first.join(60), second.join(60)
    assert answers[0] == answers[1]
    assert [f"k{number}" for number in range(9)] == [key for key, _ in driver.get_key_value_store("prices").all()]


def test_readers_wait_until_a_driver_has_processed_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading sees all of a call or nothing of it; one that would wait too long gets 503 with the reason."""
    inside, go = threading.Event(), threading.Event()

    def pause(value: int) -> int:
        if value == 500:
            inside.set()
            go.wait(60)
        return value

    builder = ks.StreamsBuilder("shop")
    builder.stream("prices").map_values(pause).group_by_key().count(store="counts")
    driver = ks.TopologyTestDriver(builder.build())
    app, answers = ks.monitoring.StoreApp(driver), list[tuple[int, bytes]]()
    records = [ks.TopicRecord("prices", 0, -1, number, f"k{number}", number) for number in range(1000)]
    piping = threading.Thread(target=driver.pipe, args=(records,))
    piping.start()
    assert inside.wait(60)
    reading = threading.Thread(target=lambda: answers.append(app.answer("/stores/counts", "limit=1000")))
    reading.start()
    reading.join(0.5)
    assert not answers
    monkeypatch.setattr(store_app, "_PATIENCE_S", 0.01)
    for path, query in {"/stores/counts": "", "/stores/counts/k1": "", "/health": "store=counts&key=k1"}.items():
        status, body = app.answer(path, query)
        assert (status, b"the stores are changing" in body) == (503, True)
    assert [app.answer(path, "")[0] for path in ("/stores", "/health")] == [200, 200]
    go.set()
    piping.join(60), reading.join(60)
    assert (answers[0][0], len(json.loads(answers[0][1]))) == (200, 1000)


def test_readers_of_a_driver_that_pipes_records_get_answers() -> None:
    """One record a call: without a lock, some were answered with 500, "dictionary changed size during iteration"."""
    builder = ks.StreamsBuilder("shop")
    windows = ks.SessionWindows.of("1s", grace="1h")
    builder.stream("prices").group_by_key().windowed_by(windows).count(store="counts")
    driver = ks.TopologyTestDriver(builder.build())
    app, statuses, done = ks.monitoring.StoreApp(driver), set[int](), threading.Event()

    def read() -> None:
        while not done.is_set():
            statuses.add(app.answer("/stores/counts", "")[0])

    readers = [threading.Thread(target=read) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads switch within a call, too
    for reader in readers:
        reader.start()
    topic = driver.create_input_topic("prices")
    for number in range(1500):
        topic.pipe_input(f"k{number}", number, at=number * 300)
    done.set()
    sys.setswitchinterval(interval)
    for reader in readers:
        reader.join(60)
    assert statuses == {200}


def test_one_reading_that_waits_holds_up_no_other() -> None:
    """The stores of a query guard themselves: its readers wait for a commit each on its own."""
    inside, go = threading.Event(), threading.Event()

    class Waiting:
        """An application whose first reader waits, as for a commit of Spark."""

        topology = _with_store(None)

        def store(self, name: str, *, headers: bool) -> Any:
            if not inside.is_set():
                inside.set()
                go.wait(60)
            raise ks.errors.ApplicationStateError("batch 3 is published, but not committed")

    app, answers = ks.monitoring.StoreApp(Waiting()), list[tuple[int, bytes]]()
    first = threading.Thread(target=lambda: answers.append(app.answer("/stores/broken", "")))
    first.start()
    assert inside.wait(60)
    second = threading.Thread(target=lambda: answers.append(app.answer("/stores/broken", "")))
    second.start()
    second.join(60)
    assert answers == [(503, b'{"error": "batch 3 is published, but not committed"}')]
    go.set()
    first.join(60)
    assert answers[1] == answers[0]


def test_a_store_that_cannot_be_read_is_not_healthy() -> None:
    """S4-52: 503 with the store's own reason."""

    class Broken:
        """A user's own store, whose disk is gone."""

        def __init__(self, spec: ks.StoreSpec) -> None:
            self.spec, self.name = spec, spec.name

        def get(self, key: object) -> object:
            raise OSError("the disk is gone")

        def all(self) -> Iterator[Any]:
            return iter(())

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

    driver = ks.TopologyTestDriver(_with_store(Broken))
    with ks.monitoring.serve(driver) as server:
        status, answer = ask(server, "/health?store=broken&key=a")
        assert status == 503
        assert answer["error"].startswith('store "broken" cannot be read: the disk is gone')


def _with_store(kind: Any) -> ks.Topology:
    builder = ks.StreamsBuilder("broken")
    spec = ks.StoreSpec("broken", "key_value", key_serde="string", value_serde="string", factory=kind)
    builder.add_state_store(spec)
    builder.stream("in").process(_Idle, "broken").to("out")
    return builder.build()


class _Idle(ks.Processor):
    """Does nothing."""

    def process(self, record: ks.Record) -> None:
        """Nothing."""


def test_values_that_json_has_no_word_for_are_answered_in_words() -> None:
    """Bytes as hexadecimal digits, identifiers as text, user content unchanged."""
    builder = ks.StreamsBuilder("odd")
    builder.table("raw", value_serde="bytes", store="raw")
    builder.table("ids", key_serde="uuid", store="ids")
    driver = ks.TopologyTestDriver(builder.build())
    driver.create_input_topic("raw").pipe_input("<b>", b"\x00\xff", at=0)
    name = UUID(int=5)
    driver.create_input_topic("ids").pipe_input(name, "five", at=0)
    with ks.monitoring.serve(driver) as server:
        assert ask(server, "/stores/raw/%3Cb%3E")[1] == {"key": "<b>", "value": "00ff", "timestamp": 0}
        assert ask(server, f"/stores/ids/{name}")[1] == {"key": str(name), "value": "five", "timestamp": 0}


def test_what_has_no_stores_is_not_served() -> None:
    """An error at once, not at the first request."""
    with pytest.raises(ks.errors.ConfigError, match="got str"):
        ks.monitoring.serve("site")
    replay = ks.replay(_with_store(None), ks.Sample.from_text("topic | key | value\nin | a | b"))
    with pytest.raises(ks.errors.ConfigError, match="got Replay"):
        ks.monitoring.serve(replay)


@pytest.mark.parametrize("path", SERVERS)
@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET {} HTTP/1.1", 200),
        ("GET {}?from=<script> HTTP/1.1", None),
        ("POST {} HTTP/1.1", 501),
        ("<script>alert(1)</script> {} HTTP/1.1", 501),
        ("GET {} HTTP/1.1 <script>", 400),
        ("GET {} SHTTP/1.1", 400),
    ],
)
def test_no_answer_is_a_page_or_is_kept(
    clicks: ks.TopologyTestDriver, path: str, request_: str, status: int | None
) -> None:
    """Also to other methods and malformed requests: no HTML, nothing to guess or to cache, no version of Python."""
    with SERVERS[path](clicks) as server:
        head, _, body = _raw(server, request_.format(path), "Host: localhost").partition("\r\n\r\n")
    lines = head.lower().splitlines()
    assert status is None or f" {status} " in lines[0]
    assert {"x-content-type-options: nosniff", "cache-control: no-store", "server: kstreamnb"} <= {
        line.strip() for line in lines
    }
    assert "text/html" not in head
    assert status in (200, None) or "error" in json.loads(body)
