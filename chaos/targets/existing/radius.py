"""How far what is done to a cluster reaches, from the cluster as it was seen: what would be lost meanwhile. Pure.

One zone at most; a majority of the voting configuration stays; every shard of every index, hidden ones too, keeps an
active copy elsewhere. What is not known is not safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from chaos.definitions.existing import ExistingFile
from chaos.kubernetes import seen as kubernetes
from chaos.targets.existing.compare import BUDGET_REMEDY, LISTED, Row, Sign
from chaos.targets.existing.seen import Seen

ACTIVE = ("STARTED", "RELOCATING")
MANAGER = "cluster_manager"
WATERMARK = "cluster.routing.allocation.disk.watermark"
WATERMARKS = {"high": 0.90, "flood_stage": 0.95}
"""OpenSearch's own, as shares of a disk that are used."""
NEAR = 0.02
"""A disk that is filled to so little below a watermark reaches it: the node goes on writing."""


def rows(
    hit: Collection[str],
    file: ExistingFile,
    seen: Seen,
    *,
    accepted: Collection[str] = frozenset(),
    voteless: Collection[str] = frozenset(),
) -> list[Row]:
    """What holds while these nodes cannot be relied on.

    ``accepted``: indices that may be without an active copy; ``voteless``: nodes whose votes are taken away.
    """
    found = [_zones(hit, file), _votes(hit, frozenset(voteless), seen), _shards(hit, seen, frozenset(accepted))]
    return found if file.kubernetes is None else [*found, _budgets(hit, file, seen)]


def filled(
    hit: Collection[str],
    share: float | None,
    file: ExistingFile,
    seen: Seen,
    *,
    accepted: Collection[str] = frozenset(),
    own: Collection[str] = frozenset(),
) -> Row | None:
    """Which indices of others suffer while the disks of these nodes are filled to a share, or to the last block (None);
    None: no index does.

    Beyond ``high`` OpenSearch moves copies away. Beyond ``flood_stage`` each index with a copy there takes no writes,
    on any node (``index.blocks.read_only_allow_delete``), so the run could not write its notes either. ``own``: the
    run's own indices. A watermark in bytes counts as reached: how large the disk is, is not known.
    """
    if seen.copies is None or seen.settings is None:
        what = "shards" if seen.copies is None else "awareness"
        return Row("disks", Sign.UNKNOWN, seen.unread.get(what, "not read"), "let this user read the cluster's state")
    asked = {name: seen.settings.get(f"{WATERMARK}.{name}", f"{stock:.0%}") for name, stock in WATERMARKS.items()}
    beyond = [name for name, mark in asked.items() if share is None or share + NEAR > _used_at(mark)]
    if not beyond:
        return None
    notes = {file.notes} if file.notes is not None else set()
    known = {copy.index for copy in seen.copies}
    there = {copy.index for copy in seen.copies if copy.node in hit} - set(own) - notes
    if "flood_stage" in beyond and any("data" in file.nodes[name].roles for name in hit if name in file.nodes):
        # before the first run there are none: then each zone gets a copy
        there |= {name for name in notes if name not in known or _has_copy(name, hit, seen)}
    refused = sorted(name for name in there if name not in accepted or name.startswith("."))
    if not refused:
        return None
    full = "has no free block" if share is None else f"is used to {share:.0%}"
    what = "take no more writes, on any node" if "flood_stage" in beyond else "have copies that are moved away"
    more = f" and {len(refused) - LISTED} more" if len(refused) > LISTED else ""
    return Row(
        "disks",
        Sign.BLOCKS,
        f"the disk of {', '.join(sorted(hit)[:LISTED])} {full}, and beyond {beyond[-1]} ({asked[beyond[-1]]}) indices "
        f"{what}: {', '.join(refused[:LISTED])}{more}",
        "fill it less, run it on a lab, or have their owners accept it (accept_unavailable), never of hidden indices",
    )


def _has_copy(index: str, hit: Collection[str], seen: Seen) -> bool:
    return any(copy.index == index and copy.node in hit for copy in seen.copies or ())


def _used_at(mark: str) -> float:
    """The share that is used at a watermark (``90%``, ``0.9``); 0 for one in bytes that must stay free."""
    try:
        return float(mark.removesuffix("%")) / 100 if mark.endswith("%") else float(mark)
    except ValueError:
        return 0.0


def wrong(found: Collection[Row]) -> list[Row]:
    """Those that forbid it."""
    return [row for row in found if row.sign is not Sign.SAME]


def _zones(hit: Collection[str], file: ExistingFile) -> Row:
    strange = sorted(name for name in hit if name not in file.nodes)
    if strange:
        return Row("zones hit", Sign.UNKNOWN, f"{', '.join(strange[:LISTED])} is in no zone of the file", "correct it")
    zones = sorted({file.nodes[name].zone for name in hit})
    if len(zones) > 1:
        says = f"zones {' and '.join(zones)} could be hit at the same time: one at most"
        return Row("zones hit", Sign.BLOCKS, says, "run it on a lab")
    return Row("zones hit", Sign.SAME, f"zone {zones[0]} alone" if zones else "none")


def _votes(hit: Collection[str], voteless: frozenset[str], seen: Seen) -> Row:
    """A majority of those that vote stays.

    With votes taken away they are chosen anew among all other cluster managers: an odd number of them, and of two the
    elected one alone (``Reconfigurator`` of OpenSearch 3.8.0). Which ones the moment decides. Half of an even number is
    no majority, so all of them bear just as few losses as the worst choice of one less.
    """
    if seen.voting is None or seen.nodes is None:
        return Row(
            "votes", Sign.UNKNOWN, seen.unread.get("shards", "not read"), "let this user read the cluster's state"
        )
    there = {node.name for node in seen.nodes}
    voting = set(seen.voting)
    if voteless:
        voting |= {node.name for node in seen.nodes if MANAGER in node.roles}
        voting -= voteless
    stay = [name for name in voting if name in there and name not in hit]
    without = f"without {', '.join(sorted(voteless))} " if voteless else ""
    says = f"{without}{len(stay)} of {len(voting)} nodes of the voting configuration stay"
    if 2 * len(stay) > len(voting):
        return Row("votes", Sign.SAME, says)
    return Row("votes", Sign.BLOCKS, f"{says}: no majority", "hit fewer cluster managers, or have more of them")


def _budgets(hit: Collection[str], file: ExistingFile, seen: Seen) -> Row:
    """No more pods of a budget are away than it allows when all is well: its owners have said what they can bear.

    What counts is how many it wants of those that it covers, and not how many may go at this moment: pods that we hold
    down already are no reason against themselves.
    """
    if not isinstance(seen.pods, kubernetes.Seen) or seen.pods.budgets is None:
        return Row("budgets", Sign.UNKNOWN, "they are not known", "let this user read them")
    pods = {file.nodes[name].pod for name in hit if name in file.nodes}
    wrong, unknown = [], []
    for each in seen.pods.budgets:
        away = len(pods & set(each.pods))
        if each.wanted is None:
            unknown += [each.name] if away else []
        elif away > (most := len(each.pods) - each.wanted):
            wrong.append(f"{each.name} lets {most} of {len(each.pods)} pods go, and {away} could be away")
    if wrong:
        return Row("budgets", Sign.BLOCKS, "; ".join(wrong[:LISTED]), "hit fewer, or agree on another budget")
    if unknown:
        says = f"how many pods {', '.join(unknown[:LISTED])} lets go is not known: its status has not been computed"
        return Row("budgets", Sign.UNKNOWN, says, BUDGET_REMEDY)
    return Row("budgets", Sign.SAME, "all of them are kept" if seen.pods.budgets else "there are none")


def _shards(hit: Collection[str], seen: Seen, accepted: frozenset[str]) -> Row:
    if seen.copies is None:
        return Row(
            "shards", Sign.UNKNOWN, seen.unread.get("shards", "not read"), "let this user read the cluster's state"
        )
    bare = sorted(set(_bare(hit, seen)))
    indices = sorted({index for index, _ in bare})
    refused = [each for each in indices if each not in accepted or each.startswith(".")]
    if not refused:
        shards = len({(copy.index, copy.shard) for copy in seen.copies})
        spared = f"; of {', '.join(indices)} none, which the file accepts" if indices else ""
        return Row("shards", Sign.SAME, f"each of {shards} keeps an active copy elsewhere{spared}")
    count = sum(index in refused for index, _ in bare)
    more = f" and {len(refused) - LISTED} more" if len(refused) > LISTED else ""
    return Row(
        "shards",
        Sign.BLOCKS,
        f"no active copy elsewhere of {count} shard{'s'[: count > 1]} of {', '.join(refused[:LISTED])}{more}",
        "give them copies in other zones, or have their owners accept it: accept_unavailable",
    )


def _bare(hit: Collection[str], seen: Seen) -> Iterator[tuple[str, int]]:
    """(index, shard) of each shard that has no active copy on a node that is not hit."""
    everywhere: set[tuple[str, int]] = set()
    kept: set[tuple[str, int]] = set()
    for copy in seen.copies or ():
        everywhere.add((copy.index, copy.shard))
        if copy.state in ACTIVE and copy.node is not None and copy.node not in hit:
            kept.add((copy.index, copy.shard))
    yield from everywhere - kept
