"""Finds links of the built site that lead nowhere: to a file that does not exist, or a place that its page lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {"", "top"}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


@cache
def _parsed(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_links(pages: Iterable[Path]) -> Iterator[str]:
    """Yield every link of these pages within the site that leads nowhere."""
    for path in pages:
        for link in dict.fromkeys(_parsed(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.name}: {link} does not exist"
            elif (
                target.suffix == ".html"
                and "lite" not in target.parts
                and unquote(parts.fragment) not in _parsed(target).anchors
            ):
                yield f"{path.name}: {link} has no such place"
