"""What the read-back compared inside documents, in words: of how many, on how many copies, and what was wrong where.

A document is right when its whole source is what its id demands, and when what was indexed from it and its doc values
agree with that (chaos/observe/contents.py says how each is asked). A record of an earlier version has no ``content``:
two numbers of each document were compared then, and nothing is claimed about its source.
"""

from __future__ import annotations

from typing import Any

from chaos.base import text

WAYS = {"source": "source", "index": "index", "doc_values": "doc values"}
"""Where a document can be wrong, as the record names it and as people do."""


def compared(readback: dict[str, Any]) -> str:
    """Of how many documents what was compared."""
    content = readback.get("content")
    if content is None:
        return "two numbers of each were compared, its source was not"
    documents, present = int(content.get("documents") or 0), int(content.get("of") or 0)
    indexed = int(content.get("indexed", documents) or 0)  # of earlier versions both were looked at in the same ones
    index = "index" if content.get("text", True) else "index but for texts"
    copies = text.plural(int(content.get("copies") or 0), "copy", "copies")
    if not documents:
        return f"source and {index} of not one document were compared"
    sample = _sample(documents, present)
    if indexed == documents and sample is None:
        return f"whole source and {index} were compared of all {text.plural(documents, 'document')} on {copies}"
    if indexed == documents:
        return f"whole source and {index} were compared of {sample} on {copies}"
    whole = sample or f"all {text.plural(documents, 'document')}"
    return f"the whole source was compared of {whole} and their {index} of {_sample(indexed, present)}, on {copies}"


def _sample(documents: int, present: int) -> str | None:
    """How many of all they are; None where they are all."""
    if documents >= present:
        return None
    share = text.percent(documents / present)
    return f"a sample of {text.count(documents)} of {text.count(present)} documents ({share})"


def wrong_count(readback: dict[str, Any]) -> int:
    """How many documents are wrong, wherever."""
    return max(int(readback.get(f"wrong_{name}_count") or 0) for name in ("content", *WAYS))


def wrong(readback: dict[str, Any]) -> str:
    """How many documents are wrong where, and one of them with the copies on which it is."""
    found = f"{text.count(wrong_count(readback))} with other content"
    ways = [
        f"{text.count(number)} in their {word}"
        for way, word in WAYS.items()
        if (number := int(readback.get(f"wrong_{way}_count") or 0))
    ]
    if ways:
        found += f" ({text.listed(ways)})"
    for way, word in WAYS.items():
        for item in (readback.get(f"wrong_{way}") or [])[:1]:
            return f"{found}, {item.get('id')} {where(item)} in its {word} ({item.get('says')})"
    return found


def where(item: dict[str, Any]) -> str:
    """On which copies a document is wrong."""
    on = [str(node) for node in item.get("on") or []]
    if item.get("unknown_on"):
        return f"on {text.listed(on)}"  # and nobody knows of the others
    if not item.get("right_on"):
        return "on every copy"
    return f"on {on[0]} alone" if len(on) == 1 else f"on {text.listed(on)}"


def named(readback: dict[str, Any]) -> dict[str, str]:
    """By the id of each document that is named as wrong: where it is."""
    found: dict[str, list[str]] = {}
    for way, word in WAYS.items():
        for item in readback.get(f"wrong_{way}") or []:
            found.setdefault(str(item.get("id")), []).append(f"{word} {where(item)}")
    return {id: "; ".join(places) for id, places in found.items()}


def gaps(readback: dict[str, Any]) -> list[str]:
    """Why less was compared than should have been, so that none wrong proves nothing. Empty for an earlier version."""
    content = readback.get("content")
    if content is None:
        return []
    found = []
    if reason := content.get("reason"):
        found.append(f"source and index could not be compared in full ({reason})")
    read = [copy for copy in readback.get("copies") or () if copy.get("read") and int(copy.get("docs") or 0)]
    short = [copy for copy in read if int(copy.get("compared") or 0) < max(1, int(copy.get("wanted") or 0))]
    if short and not reason:
        copies = text.plural(len(short), "copy", "copies")
        first = f"shard {short[0].get('shard')} on {short[0].get('node')}"
        found.append(f"source and index were not compared in full on {copies}, the first {first}")
    if not int(content.get("documents") or 0):
        found.append("not one document's source was compared")
    elif not int(content.get("indexed", 1) or 0):
        found.append("not one document's index was compared")
    return found


def evidence(readback: dict[str, Any], shown: int) -> dict[str, Any]:
    """What the finding keeps of it; nothing for a record of an earlier version."""
    if "content" not in readback:
        return {}
    return {
        "content": readback["content"],
        **{f"wrong_{way}": list(readback.get(f"wrong_{way}") or [])[:shown] for way in WAYS},
        **{f"wrong_{way}_count": int(readback.get(f"wrong_{way}_count") or 0) for way in WAYS},
    }
