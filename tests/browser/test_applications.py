"""Pages of the applications in a browser that may reach no other host."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, Request, Route, expect

import kstreamnb as ks
from tests.applications import FOLDER
from tests.browser.lab import ARTEFACTS

pytestmark = pytest.mark.browser

_MODULES = ("made", "service", "topology")


def modules(application: str) -> tuple[ModuleType, ...]:
    """Return made input, service and topology, imported from the application's folder as its service does."""
    sys.path.insert(0, str(FOLDER / application))
    try:
        return tuple(importlib.import_module(name) for name in _MODULES)
    finally:
        sys.path.pop(0)
        for name in _MODULES:
            sys.modules.pop(name, None)


@contextmanager
def service(application: str, records: int) -> Iterator[tuple[str, ks.TopologyTestDriver]]:
    """Serve the application over a driver that has processed made input; yields the address."""
    made, module, topology = modules(application)
    with ks.TopologyTestDriver(topology.build(), partitions=topology.TOPICS) as driver:
        driver.pipe(made.records(0, records))
        server = uvicorn.Server(uvicorn.Config(module.service(driver), log_level="warning"))
        listener = uvicorn.Config(None, host="127.0.0.1", port=0).bind_socket()  # type: ignore[arg-type]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", driver
        server.should_exit = True
        thread.join()


@contextmanager
def opened(browser: Browser, address: str, **options: object) -> Iterator[tuple[Page, list[str]]]:
    """Open a page; yields it with the list of its errors and of its requests to other hosts, which are refused."""
    wrong: list[str] = []
    host = urlsplit(address).netloc

    def answer(route: Route, request: Request) -> None:
        if request.url.startswith("data:") or urlsplit(request.url).netloc == host:
            route.continue_()
        else:
            wrong.append(request.url)
            route.abort()

    context = browser.new_context(**options)  # type: ignore[arg-type]
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.route("**/*", answer)
    page.goto(address)
    yield page, wrong
    context.close()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("light", {}),
        ("dark", {"color_scheme": "dark"}),
        ("phone", {"viewport": {"width": 390, "height": 844}}),
    ],
)
def test_the_fraud_dashboard_shows_alerts_with_their_times_and_a_chart(
    browser: Browser, name: str, options: dict[str, object]
) -> None:
    """A row has the time, card, rule and detail of the newest alerts; the bars are as many alerts as the topic."""
    with service("fraud", 1200) as (address, driver), opened(browser, address, **options) as (page, wrong):
        alerts = driver.create_output_topic("fraud-alerts").read_records()
        cards = {alert.key: alert for alert in alerts}
        newest = max(cards.values(), key=lambda alert: alert.timestamp)
        expect(page.locator("#state")).to_contain_text(f"{len(alerts)} alerts on {len(cards)} cards")
        rows = page.locator("#cards tr")
        expect(rows).to_have_count(12)
        cells = rows.first.locator("td").all_inner_texts()
        time = f"{newest.timestamp // 3_600_000 % 24:02}:{newest.timestamp // 60_000 % 60:02}"
        assert [cells[0][:5], *cells[2:]] == [time, newest.value["rule"], newest.value["detail"]]
        titles = page.locator("#chart rect title").evaluate_all("all => all.map(title => title.textContent)")
        assert sum(int(title.rpartition(" ")[2]) for title in titles) == len(alerts)
        heights = page.locator("#chart rect").evaluate_all("all => all.map(bar => bar.getBBox().height)")
        assert sum(height > 0 for height in heights) > 5
        page.screenshot(path=ARTEFACTS / f"fraud-dashboard-{name}.png", full_page=True)
    assert [] == wrong


def test_the_order_service_documents_itself_without_other_hosts(browser: Browser) -> None:
    """/docs shows the operation and runs it; scripts and styles come from the service."""
    with service("orders", 300) as (address, _), opened(browser, f"{address}/docs") as (page, wrong):
        page.get_by_text("/orders/{id}").first.click()
        page.get_by_role("button", name="Try it out").click()
        page.get_by_placeholder("id").fill("no-such-order")
        page.get_by_role("button", name="Execute").click()
        expect(page.locator(".live-responses-table .response .response-col_status")).to_contain_text("404")
        page.screenshot(path=ARTEFACTS / "orders-docs.png")
    assert [each for each in wrong if "404" not in each] == []
