"""A topology's description as a JSON document: stable, versioned and comparable, for tools and for version control.

    {"format": "kstreamnb.topology", "version": 1, "name": …,
     "subtopologies": [{"id": 0, "global": false, "nodes": [
         {"kind": "source", "name": …, "topics": […], "pattern": …, "successors": […]},
         {"kind": "processor", "name": …, "stores": […], "successors": […], "predecessors": […], "dsl": …},
         {"kind": "sink", "name": …, "topic": …, "extractor": …, "predecessors": […]}]}],
     "stores": [{"name": …, "kind": …, "settings": {…}}],
     "internal_topics": [{"name": …, "partitions": …}],
     "copartitioned": [[source, …]]}

Fields that are empty or unknown are left out. Nodes and lists are in the order of Kafka's text, keys as above, so
that equal topologies give equal bytes. ``origin`` (the user's line) is included only on request.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kstreamnb.topology.description import DescribedNode, TopologyDescription

_FORMAT, _VERSION = "kstreamnb.topology", 1
_LISTS = ("topics", "stores", "successors", "predecessors")
_TEXTS = ("pattern", "topic", "extractor", "dsl", "origin")


def to_json(description: TopologyDescription, *, origins: bool = False, indent: int | None = 2) -> str:
    """Return the document as text; ``indent=None`` puts it on one line."""
    return json.dumps(_document(description, origins=origins), indent=indent, ensure_ascii=False)


def fingerprint(description: TopologyDescription) -> str:
    """Return 16 hexadecimal digits that change with the structure: nodes, edges, topics, stores and their settings.

    The code of the user's functions is not part of it, nor are the topology's name and source locations.
    """
    document = _document(description, origins=False)
    document.pop("name", None)
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def _document(description: TopologyDescription, *, origins: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
    if description.name is not None:
        document["name"] = description.name
    document["subtopologies"] = [
        {"id": sub.id, "global": sub.is_global, "nodes": [_node_document(node, origins) for node in sub.nodes]}
        for sub in description.subtopologies
    ]
    lists = {
        "stores": [
            {"name": store.name, "kind": store.kind, "settings": dict(store.settings)} for store in description.stores
        ],
        "internal_topics": [
            {"name": topic.name} | ({} if topic.partitions is None else {"partitions": topic.partitions})
            for topic in description.internal_topics
        ],
        "copartitioned": [list(group) for group in description.copartitioned],
    }
    return document | {name: entries for name, entries in lists.items() if entries}


def _node_document(node: DescribedNode, origins: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": node.kind, "name": node.name}
    document |= {field: list(getattr(node, field)) for field in _LISTS if getattr(node, field)}
    texts = _TEXTS if origins else _TEXTS[:-1]
    document |= {field: getattr(node, field) for field in texts if getattr(node, field) is not None}
    if node.settings:
        document["settings"] = dict(node.settings)
    return document
