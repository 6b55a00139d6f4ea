"""Evidence by effect: what others see of a fault, where nobody of ours can look at the thing itself (grade ``effect``).

Of a node: whether it answers at its own address, whether the others have it as a member, and what they get from it.
Both must be so: a node that only we do not reach is not dead, and one that only the others have lost still serves. The
nodes that the fault does not name must answer and be members all the while. Each is asked by REST.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import urllib3

from chaos.faults.evidence import SILENCE_SECONDS, Look, Probe, Simple, out_of_it, spread
from chaos.faults.probes import Asked, Echo, Line, Pair, Reply, direct, together
from chaos.opensearch.rest import UNREADABLE
from chaos.targets.protocol import Lab

T = TypeVar("T")

MEMBERS = "/_cluster/state/nodes?local=true&filter_path=nodes.*.name"
LIVES = "/_cluster/state/nodes?local=true&filter_path=nodes.*.name,nodes.*.ephemeral_id"
STARTED = "/_nodes/_local/jvm?filter_path=nodes.*.jvm.start_time_in_millis"
WHOLE = "/_cluster/health?local=true&filter_path=status,number_of_nodes,discovered_cluster_manager"
ANSWER_SECONDS = 2.0
"""What a node that is well may take to answer on a busy machine."""
NEIGHBOURS = 3
"""How many others are asked what they get from a node that stands still."""
BACK_SECONDS = 120.0
"""How long nodes may take to be back, and links to carry, once it is said that they are let go."""


class NodeEffects(Simple):
    """Nodes that are dead, or stand still (``paused``), as the cluster sees it; later they are members again."""

    effect_deadline = 90.0
    """A host that is gone is given up after three checks of 10 s, and a leader's publication waits for it."""
    gone_deadline = 150.0

    def __init__(self, nodes: Iterable[str], *, paused: bool = False) -> None:
        self._nodes, self._paused = list(nodes), paused
        self._known: tuple[str, ...] = ()
        """Who said before whom it has for a member."""
        self._spared: list[str] = []
        self._turns = itertools.count()
        self._held: frozenset[str] = frozenset()

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._held = nodes | {name for link in links for name in link}

    def _others(self) -> list[str]:
        """Who can be asked about the named nodes, and believed."""
        return [name for name in self._known if name not in self._held]

    def before(self, lab: Lab) -> Look:
        named = {*self._nodes, *self._held}
        self._known = tuple(name for name in lab.viewers if name not in named)
        told = members(lab, self._known)
        self._known = tuple(name for name, seen in told.items() if seen is not None)
        self._spared = sorted({node.name for node in lab.topology.nodes} - named - out_of_it(lab))
        return _judged(self._alive(lab, told) + self._controls(lab, told), "signs of life before")

    def in_effect(self, lab: Lab) -> Look:
        told = members(lab, self._others())
        probes = self._still_ones(lab, self._nodes) if self._paused else self._dead(lab, self._nodes, told)
        controls = self._controls(lab, told)
        if not all(probe.ok for probe in controls) and (out := out_of_it(lab)):
            controls = self._controls(lab, told, out)  # nobody has a zone that is decommissioned
        shown, calm = sum(probe.ok for probe in probes), sum(probe.ok for probe in controls)
        says = f"{shown} of {len(probes)} signs on {', '.join(self._nodes)} as others see it"
        says += f"; {calm} of {len(controls)} signs of what it does not name are as before"
        return Look(shown == len(probes) and calm == len(controls), says, [*probes, *controls])

    def held(self, lab: Lab) -> Look:
        return self.in_effect(lab)

    def still(self, lab: Lab) -> Look | None:
        others = self._others()
        if not others:
            return None
        turn = next(self._turns)
        mine = [self._nodes[turn % len(self._nodes)]]
        told = members(lab, [others[turn % len(others)]])
        probes = self._still_ones(lab, mine) if self._paused else self._dead(lab, mine, told)
        return _judged(probes, "signs in their turn")

    def gone(self, lab: Lab) -> Look:
        return _judged(self._alive(lab, members(lab, self._others())), "signs of life")

    # ---- what is asked -----------------------------------------------------------------------

    def _dead(self, lab: Lab, nodes: Sequence[str], told: Mapping[str, frozenset[str] | None]) -> list[Probe]:
        echoes = at_once(lambda node: direct(lab, node, SILENCE_SECONDS), nodes)
        probes = []
        for node, echo in echoes.items():
            probes.append(_at_home(node, "no answer", echo, echo.reply is not Reply.ANSWERED))
            probes.append(_no_member(node, told))
        return probes

    def _still_ones(self, lab: Lab, nodes: Sequence[str]) -> list[Probe]:
        """Its kernel takes connections, and neither we nor its neighbours get an answer."""
        echoes = at_once(lambda node: direct(lab, node, SILENCE_SECONDS), nodes)
        probes = []
        for node, echo in echoes.items():
            probes.append(_at_home(node, "silent", echo, echo.reply is Reply.SILENT))
            taken, how = _taken(lab, node)
            probes.append(Probe(f"a connection to {node}", "taken", how, taken, about=node))
            asked = spread([(other, node) for other in self._others() if other in _names(lab)], NEIGHBOURS)
            probes += _silence(lab, node, asked)
        return probes

    def _alive(self, lab: Lab, told: Mapping[str, frozenset[str] | None]) -> list[Probe]:
        probes = []
        for node, echo in at_once(lambda node: direct(lab, node, ANSWER_SECONDS), self._nodes).items():
            probes.append(_at_home(node, "answered", echo, echo.reply is Reply.ANSWERED))
            probes.append(_member(node, "a member", told, _by_all(node, told)))
        return probes

    def _controls(
        self, lab: Lab, told: Mapping[str, frozenset[str] | None], out: Collection[str] = frozenset()
    ) -> list[Probe]:
        """The nodes that are not named, and that no other fault holds."""
        spared = [name for name in self._spared if name not in self._held and name not in out]
        probes = []
        for node, echo in at_once(lambda node: direct(lab, node, ANSWER_SECONDS), spared).items():
            well = echo.reply is Reply.ANSWERED and _by_all(node, {n: s for n, s in told.items() if n not in out})
            how = f"{echo}, {_words(node, told)}"
            probes.append(Probe(f"untouched: {node}", "answered, and a member", how, well, control=True))
        return probes


class CutOff(NodeEffects):
    """Nodes whose packets to and from all others vanish, while they live: silent, where a dead one would refuse.

    Whether we are outside too is not known: one that answers us must itself get no answer from those outside.
    """

    def _dead(self, lab: Lab, nodes: Sequence[str], told: Mapping[str, frozenset[str] | None]) -> list[Probe]:
        outside = [other for other in self._others() if other in _names(lab)]
        probes = []
        for node, echo in at_once(lambda node: direct(lab, node, SILENCE_SECONDS), nodes).items():
            probes.append(_no_member(node, told))
            asked = spread([(other, node) for other in outside], NEIGHBOURS)
            if echo.reply is Reply.ANSWERED:
                asked += spread([(node, other) for other in outside], NEIGHBOURS)
            else:
                probes.append(_at_home(node, "silent", echo, echo.reply is Reply.SILENT))
            probes += _silence(lab, node, asked)
        return probes


class Restarted(NodeEffects):
    """Nodes whose processes are others than before, and that are back in a green cluster.

    A node draws its ephemeral id when it starts: the others have a new process as a member under another one
    (``DiscoveryNode`` in the server's sources). The node itself says when its JVM started. Nodes that are not named
    are members under the ids that they had.
    """

    holds = False  # it is over when it is proven

    def __init__(self, nodes: Iterable[str], *, within: float) -> None:
        """``within``: seconds that they may take until they are back and the cluster is green."""
        super().__init__(nodes)
        self.effect_deadline = within
        self._ids: dict[str, str | None] = {}
        self._starts: dict[str, int | None] = {}

    def before(self, lab: Lab) -> Look:
        look = super().before(lab)
        told = lives(lab, self._known)
        self._ids = {name: _one_id(name, told) for name in sorted({*self._nodes, *self._spared})}
        self._starts = at_once(lambda node: _started(lab, node), self._nodes)
        probes = list(look.probes)
        for node in self._nodes:
            id, start = self._ids[node], self._starts[node]
            says = f"ephemeral id {id or 'not known'}, {_since(start)}"
            probes.append(Probe(f"process of {node}", "known", says, id is not None and start is not None, about=node))
        return _judged(probes, "signs of life before")

    def in_effect(self, lab: Lab) -> Look:
        told = lives(lab, self._others())
        members = {viewer: None if ids is None else frozenset(ids) for viewer, ids in told.items()}
        starts = at_once(lambda node: _started(lab, node), self._nodes)
        probes = self._alive(lab, members)
        for node in self._nodes:
            before, now = self._starts.get(node), starts[node]
            other = before is not None and now is not None and now != before
            probes.append(Probe(f"process of {node}", f"not {_since(before)}", _since(now), other, about=node))
            known, id = self._ids.get(node), _one_id(node, told)
            other = known is not None and id is not None and id != known
            says = id or "not the same for all others"
            probes.append(Probe(f"ephemeral id of {node}", f"another than {known}", says, other, about=node))
            green, how = _whole(lab, node, len(lab.topology.nodes))
            probes.append(Probe(f"{node} in its own view", "in a whole and green cluster", how, green, about=node))
        controls = self._controls(lab, members)
        for node in (name for name in self._spared if name not in self._held):
            known, id = self._ids.get(node), _one_id(node, told)
            what = f"untouched: ephemeral id of {node}"
            controls.append(Probe(what, str(known), str(id), known is not None and id == known, control=True))
        shown, calm = sum(probe.ok for probe in probes), sum(probe.ok for probe in controls)
        says = f"{shown} of {len(probes)} signs of a restart of {', '.join(self._nodes)} as others see it"
        says += f"; {calm} of {len(controls)} signs of what it does not name are as before"
        return Look(shown == len(probes) and calm == len(controls), says, [*probes, *controls])

    def still(self, lab: Lab) -> Look | None:
        return None


class Left(NodeEffects):
    """Nodes whose earlier processes are members for no other node, whether or not new ones run in their place."""

    def __init__(self, nodes: Iterable[str]) -> None:
        super().__init__(nodes)
        self._ids: dict[str, str | None] = {}

    def before(self, lab: Lab) -> Look:
        look = super().before(lab)
        told = lives(lab, self._known)
        self._ids = {node: _one_id(node, told) for node in self._nodes}
        known = [
            Probe(f"ephemeral id of {node}", "known", id or "not the same for all others", id is not None, about=node)
            for node, id in self._ids.items()
        ]
        return _judged([*look.probes, *known], "signs of life before")

    def in_effect(self, lab: Lab) -> Look:
        told = lives(lab, self._others())
        controls = self._controls(
            lab, {viewer: None if ids is None else frozenset(ids) for viewer, ids in told.items()}
        )
        probes = self._away(told)
        shown, calm = sum(probe.ok for probe in probes), sum(probe.ok for probe in controls)
        says = f"{shown} of {len(probes)} signs that {', '.join(self._nodes)} left, as others see it"
        says += f"; {calm} of {len(controls)} signs of what it does not name are as before"
        return Look(shown == len(probes) and calm == len(controls), says, [*probes, *controls])

    def still(self, lab: Lab) -> Look | None:
        others = self._others()
        if not others:
            return None
        viewer = others[next(self._turns) % len(others)]
        return _judged(self._away(lives(lab, [viewer])), "signs in their turn")

    def _away(self, told: Mapping[str, Mapping[str, str] | None]) -> list[Probe]:
        probes = []
        for node, id in self._ids.items():
            asked = [each for each in told.values() if each is not None]
            by = sum(each.get(node) == id for each in asked)
            what, how = f"the process {id} of {node}", f"a member for {by} of {len(asked)} others"
            probes.append(Probe(what, "a member for none", how, bool(asked) and id is not None and by == 0, about=node))
        return probes


def lives(lab: Lab, viewers: Sequence[str]) -> dict[str, dict[str, str] | None]:
    """Whom each of these has for a member: name → ephemeral id; None where it does not say."""

    def ask(viewer: str) -> dict[str, str] | None:
        said = _asked(lab, viewer, LIVES)
        try:
            return {str(node["name"]): str(node["ephemeral_id"]) for node in said["nodes"].values()}
        except UNREADABLE:
            return None

    return at_once(ask, viewers)


def _asked(lab: Lab, node: str, path: str) -> Any:
    """What a node answers to a GET; None where it does not answer with 200."""
    client = lab.client(node, timeout=ANSWER_SECONDS)
    try:
        status, said = client.request("GET", path)
        return said if status == 200 else None
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return None
    finally:
        client.close()


def _one_id(node: str, told: Mapping[str, Mapping[str, str] | None]) -> str | None:
    """The ephemeral id that all who say something have of a node; None where they have none, or not the same."""
    ids = {each.get(node) for each in told.values() if each is not None}
    return ids.pop() if len(ids) == 1 else None


def _started(lab: Lab, node: str) -> int | None:
    """When its JVM started, as the node says (unix time, ms)."""
    try:
        (told,) = _asked(lab, node, STARTED)["nodes"].values()
        return int(told["jvm"]["start_time_in_millis"])
    except UNREADABLE:
        return None


def _since(start: int | None) -> str:
    return "nobody says since when it runs" if start is None else f"one that started at {start / 1000:.3f} (unix time)"


def _whole(lab: Lab, node: str, nodes: int) -> tuple[bool, str]:
    """Whether a node itself sees a leader and so many nodes, and green; others may not have noticed yet that the
    process before it is gone."""
    said = _asked(lab, node, WHOLE)
    try:
        well = (
            said["status"] == "green" and said["number_of_nodes"] >= nodes and bool(said["discovered_cluster_manager"])
        )
        return well, f"{said['status']}, {said['number_of_nodes']} of {nodes} nodes"
    except UNREADABLE:
        return False, "no answer that can be read"


def at_once(ask: Callable[[str], T], names: Sequence[str]) -> dict[str, T]:
    """The answer about each, asked at the same time."""
    if not names:
        return {}
    with ThreadPoolExecutor(min(len(names), 16)) as pool:
        return dict(zip(names, pool.map(ask, names), strict=True))


def members(lab: Lab, viewers: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """Whom each of these has for a member, by name; None where it does not say."""

    def ask(viewer: str) -> frozenset[str] | None:
        client = lab.client(viewer, timeout=ANSWER_SECONDS)
        try:
            status, said = client.request("GET", MEMBERS)
            return frozenset(str(node["name"]) for node in said["nodes"].values()) if status == 200 else None
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return None
        finally:
            client.close()

    return at_once(ask, viewers)


def _names(lab: Lab) -> frozenset[str]:
    return frozenset(node.name for node in lab.topology.nodes)


def _taken(lab: Lab, node: str) -> tuple[bool, str]:
    try:
        lab.administration(node).connect(SILENCE_SECONDS).close()
    except OSError as error:
        return False, error.strerror or type(error).__name__
    return True, "taken"


def _seen_by(node: str, told: Mapping[str, frozenset[str] | None]) -> list[str]:
    return [viewer for viewer, seen in told.items() if seen is not None and node in seen]


def _by_all(node: str, told: Mapping[str, frozenset[str] | None]) -> bool:
    """Whether all who say something have it for a member; nobody is not all."""
    seen = [each for each in told.values() if each is not None]
    return bool(seen) and all(node in each for each in seen)


def _words(node: str, told: Mapping[str, frozenset[str] | None]) -> str:
    asked = sum(seen is not None for seen in told.values())
    if not asked:
        return "nobody says whether it is a member"
    by = _seen_by(node, told)
    return f"a member for {len(by)} of {asked} others"


def _at_home(node: str, expected: str, echo: Echo, ok: bool) -> Probe:
    return Probe(f"{node} at its own address", expected, str(echo), ok, about=node)


def _member(node: str, expected: str, told: Mapping[str, frozenset[str] | None], ok: bool) -> Probe:
    return Probe(f"{node} as others have it", expected, _words(node, told), ok, about=node)


def _no_member(node: str, told: Mapping[str, frozenset[str] | None]) -> Probe:
    someone_says = any(seen is not None for seen in told.values())
    return _member(node, "no member", told, someone_says and not _seen_by(node, told))


def _silence(lab: Lab, node: str, asked: Sequence[Pair]) -> list[Probe]:
    """What becomes of these questions between nodes, which are to get no answer; none at all shows nothing."""
    if not asked:
        return [Probe(f"others ask {node}", "silent", "nobody can be asked", False, about=node)]
    lines: list[Line] = [Asked(lab, pair) for pair in asked]
    answers = together(lines, SILENCE_SECONDS)
    for line in lines:
        line.close()
    return [
        Probe(f"{a} asks {b}", "silent", str(answer), answer.is_(Reply.SILENT), about=node)
        for (a, b), answer in answers.items()
    ]


def _judged(probes: list[Probe], what: str) -> Look:
    well = sum(probe.ok for probe in probes)
    return Look(bool(probes) and well == len(probes), f"{well} of {len(probes)} {what}", probes)


# ---- what is left -----------------------------------------------------------------------------------------


def not_back(lab: Lab, nodes: Collection[str], pairs: Collection[Pair], seconds: float) -> list[str]:
    """What others still see of faults that are said to be undone, in words; empty: nothing.

    Up to ``seconds`` are left for nodes to come back and for links to carry.
    """
    end = time.monotonic() + seconds
    while True:
        found = _not_back(lab, sorted(nodes), sorted(pairs))
        if not found or time.monotonic() >= end:
            return found
        time.sleep(0.5)


def _not_back(lab: Lab, nodes: Sequence[str], pairs: Sequence[Pair]) -> list[str]:
    told = members(lab, [viewer for viewer in lab.viewers if viewer not in nodes])
    found = []
    for node, echo in at_once(lambda node: direct(lab, node, ANSWER_SECONDS), nodes).items():
        if echo.reply is not Reply.ANSWERED or not _by_all(node, told):
            found.append(f"{node} is not back: {echo} at its own address, {_words(node, told)}")
    lines: list[Line] = [Asked(lab, pair) for pair in pairs]
    for (a, b), echo in together(lines, ANSWER_SECONDS).items():
        if echo.reply is not Reply.ANSWERED:
            found.append(f"{a} gets no answer from {b}: {echo}")
    for line in lines:
        line.close()
    return found
