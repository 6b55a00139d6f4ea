"""Impact on neighbours: whether traffic that is not ours gets worse than a target's file allows. The judgement, pure,
and the guard.

Held against a baseline from before the run did anything. Samples are taken together until there are enough of them for
a judgement, and worse is what such *blocks* in a row say for as long as the file gives. How many are enough:

* of a rate that may fall by the share f: 14 (2 - f) / f² requests by the baseline's rate. Calm traffic of independent
  requests seems to have fallen so far in one block of 10,000 (two Poisson counts, z = 3.72), baseline and block alike.
* of a mean time that may grow x times: 250 / (x - 1)² requests, 30 at least: as rare where single times have a standard
  deviation of three times their mean, as those with a long tail have.

A baseline with fewer of them decides nothing, nor one that itself would have ended the run: traffic that comes in
bursts. Both are said, and then that limit ends no run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from chaos.base import text
from chaos.base.errors import InvalidInput
from chaos.base.guarding import Watch
from chaos.checks.instrument import Begins, Context, Ends, Instrument, Observer, Traffic
from chaos.definitions.existing import Foreign, TrafficLimits
from chaos.opensearch.foreign import PERIOD_SECONDS, Grown

RARE = 3.72
"""Standard deviations that chance exceeds once in 10,000 times."""
TAIL = 3.0
"""Standard deviation of single times, in means."""
FEWEST = 30
NEARLY = 0.95
"""Of the time that it may be worse: samples are never exactly a period apart."""
PAUSES_MS = 5.0
"""A mean time that grew by less is not slower: the pauses of a JVM make as much of a short one."""
BASELINE_SECONDS = 20.0
"""Of a baseline at least; and three times as long as it may be worse."""
SILENT_SECONDS = 3 * PERIOD_SECONDS
"""How long nothing may be heard."""
FOREIGN_GUARD = "foreign"
WORDS = {"search": "searches", "indexing": "documents indexed"}


def enough_for_fewer(share: float) -> int:
    """Requests by which a fall by more than ``share`` of a rate can be told from chance."""
    return math.ceil(RARE**2 * (2 - share) / share**2)


def enough_for_slower(factor: float) -> int:
    """Requests by which a mean time of more than ``factor`` times another can be told from chance."""
    return max(FEWEST, math.ceil(2 * (RARE * TAIL / (factor - 1)) ** 2))


def baseline_seconds(limits: Foreign) -> float:
    """How long is listened before the run does anything."""
    return max(BASELINE_SECONDS, 3 * float(limits.for_))


@dataclass(frozen=True)
class Seen:
    """One kind of traffic over some time. ``timed``: of how many requests ``ms`` is the sum."""

    seconds: float
    count: int
    timed: int
    ms: int

    @classmethod
    def of(cls, kind: str, samples: Iterable[Grown]) -> Seen:
        """``kind``: search or indexing."""
        seen = cls(0.0, 0, 0, 0)
        for each in samples:
            seen = seen.and_also(cls.one(kind, each))
        return seen

    @classmethod
    def one(cls, kind: str, sample: Grown) -> Seen:
        if kind == "search":
            return cls(sample.seconds, sample.searches, sample.searches, sample.search_ms)
        return cls(sample.seconds, sample.documents, sample.indexed, sample.index_ms)

    def and_also(self, other: Seen) -> Seen:
        return Seen(
            self.seconds + other.seconds, self.count + other.count, self.timed + other.timed, self.ms + other.ms
        )

    @property
    def rate(self) -> float:
        return self.count / self.seconds if self.seconds else 0.0

    @property
    def mean(self) -> float:
        """Milliseconds; 0 where nothing was timed."""
        return self.ms / self.timed if self.timed else 0.0


class Judge:
    """Of one limit of one kind of traffic. Takes samples in their order; tells when it has been worse for too long."""

    def __init__(self, kind: str, limits: TrafficLimits, lasting: float, before: Seen) -> None:
        self.kind, self._limits, self._for, self._before = kind, limits, lasting, before
        self._block = Seen(0.0, 0, 0, 0)
        self._worse = Seen(0.0, 0, 0, 0)

    def take(self, sample: Grown) -> str | None:
        """Why the run must end; None while it may go on."""
        self._block = self._block.and_also(Seen.one(self.kind, sample))
        if not self._enough(self._block):
            return None
        block, self._block = self._block, Seen(0.0, 0, 0, 0)
        self._worse = self._worse.and_also(block) if self._is_worse(block) else Seen(0.0, 0, 0, 0)
        return self._says(self._worse) if self._worse.seconds >= NEARLY * self._for else None

    @property
    def undecided(self) -> str | None:
        """Why the baseline is too little for it; None where it is not."""
        raise NotImplementedError

    def _enough(self, block: Seen) -> bool:
        raise NotImplementedError

    def _is_worse(self, block: Seen) -> bool:
        raise NotImplementedError

    def _says(self, worse: Seen) -> str:
        raise NotImplementedError

    def _too_few(self, have: int, needed: int) -> str | None:
        if have >= needed:
            return None
        return f"{have} {WORDS[self.kind]} in {text.seconds(round(self._before.seconds))}, and {needed} are needed"


class Fewer(Judge):
    """Its rate fell."""

    @property
    def undecided(self) -> str | None:
        return self._too_few(self._before.count, enough_for_fewer(self._limits.fewer))

    def _enough(self, block: Seen) -> bool:
        return self._before.rate * block.seconds >= enough_for_fewer(self._limits.fewer)

    def _is_worse(self, block: Seen) -> bool:
        return block.rate < (1 - self._limits.fewer) * self._before.rate

    def _says(self, worse: Seen) -> str:
        return (
            f"others had {worse.rate:.3g} {WORDS[self.kind]} per second for {text.seconds(round(worse.seconds))}, "
            f"and {self._before.rate:.3g} before the run did anything: "
            f"{1 - worse.rate / self._before.rate:.0%} fewer, and the file allows {self._limits.fewer.text}"
        )


class Slower(Judge):
    """Its mean time grew."""

    @property
    def undecided(self) -> str | None:
        return self._too_few(self._before.timed, enough_for_slower(self._limits.slower))

    def _enough(self, block: Seen) -> bool:
        return block.timed >= enough_for_slower(self._limits.slower)

    def _is_worse(self, block: Seen) -> bool:
        longer = block.mean - self._before.mean
        return longer >= PAUSES_MS and block.mean > self._limits.slower * self._before.mean

    def _says(self, worse: Seen) -> str:
        what = "a search of a shard" if self.kind == "search" else "indexing a document"
        times = f": {worse.mean / self._before.mean:.3g} times as long" if self._before.mean else ""
        return (
            f"{what} of others took {worse.mean:.3g} ms on average for {text.seconds(round(worse.seconds))}, "
            f"and {self._before.mean:.3g} ms before the run did anything{times}, "
            f"and the file allows {self._limits.slower.text}"
        )


@dataclass(frozen=True)
class Verdicts:
    """What a baseline is good for. ``judges``: of the limits that can be judged by it; ``undecided``: of the others in
    words, each with why."""

    judges: tuple[Judge, ...]
    undecided: tuple[str, ...]

    @classmethod
    def by(cls, limits: Foreign, baseline: Sequence[Grown]) -> Verdicts:
        judges: list[Judge] = []
        undecided = []
        for kind, limit in limits.limits.items():
            before = Seen.of(kind, baseline)
            for judge, word in ((Fewer, "fewer"), (Slower, "slower")):
                made = judge(kind, limit, float(limits.for_), before)
                why = made.undecided
                if why is None and any(made.take(sample) is not None for sample in baseline):
                    why = "it varied by more than that before the run did anything"
                if why is None:
                    judges.append(judge(kind, limit, float(limits.for_), before))
                else:
                    undecided.append(f"foreign {kind}, {word}: nothing ends the run: {why}")
        return cls(tuple(judges), tuple(undecided))


class Worse:
    """The guard: others have had it worse for too long. ``after``: how many samples are the baseline's, and judged by
    nobody."""

    name = FOREIGN_GUARD

    def __init__(self, traffic: Traffic, judges: Sequence[Judge], after: int) -> None:
        self._traffic, self._judges, self._next = traffic, judges, after

    def tripped(self, now: float) -> str | None:
        """Why the run must end."""
        if (silent := unheard(self._traffic, now)) is not None:
            return silent
        samples = self._traffic.grown
        while self._next < len(samples):
            _, sample = samples[self._next]
            self._next += 1
            said = [why for judge in self._judges if (why := judge.take(sample)) is not None]
            if said:
                return "; ".join(said)
        return None


def unheard(traffic: Traffic, now: float) -> str | None:
    """Why nothing is known of what others do at ``now`` (``time.monotonic``)."""
    if not traffic.alive():
        return "it cannot be evaluated: who samples it is dead"
    if now - traffic.heard <= SILENT_SECONDS:
        return None
    why = f" ({traffic.why})" if traffic.why else ""
    return f"it cannot be evaluated: nothing was heard of what others do for {SILENT_SECONDS:g} s{why}"


class Impact(Observer):
    """Of one run on a cluster that exists, guarded where the file limits what others may feel of it.

    ``traffic``: what others do there. ``ask``: told why the run must end, and by which guard. ``tick``: told how
    listening goes; may raise. ``note``: told of each limit that cannot be held, with why. ``stop`` may be called before
    ``start``, and twice.
    """

    def __init__(
        self,
        limits: Foreign | None,
        traffic: Callable[[], Traffic | None],
        ask: Callable[[str, str], None],
        tick: Callable[[str], None],
        note: Callable[[str], None] = lambda says: None,
    ) -> None:
        self._limits, self._traffic = limits, traffic
        self._ask, self._tick, self._note = ask, tick, note
        self._guarding = ExitStack()

    def start(self) -> None:
        """Listen to a baseline before the run does anything; guard from its end on.

        Raises InvalidInput where the file has limits and nothing samples what others do.
        """
        if self._limits is None:
            return
        traffic = self._traffic()
        if traffic is None:
            raise InvalidInput(
                "the target's file limits what others may feel of a run, and no instrument samples what they do",
                remedy="install this suite anew, whole; or take foreign out of the file",
            )
        began, wanted = time.monotonic_ns(), baseline_seconds(self._limits)
        while (seconds := sum(sample.seconds for _, sample in traffic.grown)) < wanted:
            if (why := unheard(traffic, time.monotonic())) is not None:
                self._ask(why, FOREIGN_GUARD)
            self._tick(f"listening to what others do before anything is done: {wanted - seconds:.0f} s left")
            time.sleep(0.1)
        baseline = [sample for _, sample in traffic.grown]
        found = Verdicts.by(self._limits, baseline)
        kinds = {kind: asdict(Seen.of(kind, baseline)) for kind in WORDS}
        judged = [f"{type(each).__name__.lower()} {each.kind}" for each in found.judges]
        traffic.note(
            "baseline", since=began, limits=self._limits.says, judged=judged, undecided=list(found.undecided), **kinds
        )
        self._guarding.enter_context(Watch([Worse(traffic, found.judges, len(baseline))], self._ask))
        for says in found.undecided:
            self._note(says)

    def stop(self, *, patient: bool = True) -> None:
        """The load is over, and with it the guard."""
        self._guarding.close()


def _observe(context: Context) -> Impact | None:
    if context.existing is None:
        return None

    def tick(says: str) -> None:
        context.check()
        context.status(says)

    limits = context.existing.written.foreign
    return Impact(limits, lambda: context.provided(Traffic), context.ask, tick, context.note)


INSTRUMENT = Instrument(
    name="neighbour impact",
    says="whether traffic that is not ours gets worse than a target's file allows: then the run ends",
    observe=_observe,
    begins=Begins.FIRST,
    ends=Ends.LOAD,
    order=31,
)
