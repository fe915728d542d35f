"""Reads the JSON document of a topology back, to prove that it holds the whole description."""

from __future__ import annotations

import json
from typing import Any

from kstreamnb.topology.description import DescribedNode, DescribedStore, DescribedSubtopology, TopologyDescription
from kstreamnb.topology.nodes import InternalTopic

_LISTS = ("topics", "stores", "successors", "predecessors")
_TEXTS = ("pattern", "topic", "extractor", "dsl", "origin")


def from_json(text: str) -> TopologyDescription:
    """Return the description that a document holds."""
    document = json.loads(text)
    assert (document["format"], document["version"]) == ("kstreamnb.topology", 1)
    return TopologyDescription(
        tuple(
            DescribedSubtopology(sub["id"], tuple(_node(node) for node in sub["nodes"]), sub["global"])
            for sub in document["subtopologies"]
        ),
        tuple(_store(store) for store in document.get("stores", ())),
        tuple(InternalTopic(topic["name"], topic.get("partitions")) for topic in document.get("internal_topics", ())),
        tuple(tuple(group) for group in document.get("copartitioned", ())),
        document.get("name"),
    )


def _node(document: dict[str, Any]) -> DescribedNode:
    fields: dict[str, Any] = {field: tuple(document.get(field, ())) for field in _LISTS}
    fields |= {field: document.get(field) for field in _TEXTS}
    settings = tuple(document.get("settings", {}).items())
    return DescribedNode(document["kind"], document["name"], **fields, settings=settings)


def _store(document: dict[str, Any]) -> DescribedStore:
    return DescribedStore(document["name"], document["kind"], tuple(document["settings"].items()))
