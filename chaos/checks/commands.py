"""``command``: what a program says that an expectation names, by its exit code.

The runner asks it once the load has settled and everything was read back (:mod:`chaos.run.asking`). 0 holds, 1 fails.
3 is its own word for not knowing, and one that is not over in time has said nothing: both are inconclusive. Any other
code is an error of the run, since a program that broke says nothing of a cluster; the runner writes that down.
"""

from __future__ import annotations

from chaos.checks.check import Check, Scope
from chaos.checks.measure import Measure
from chaos.checks.record import Expected, Record
from chaos.checks.trial import Altered, Trial, first
from chaos.checks.words import Item, Tables, Words, filled, upper, wanted
from chaos.history.events import CommandAsked

HOLDS, FAILS, UNKNOWN = 0, 1, 3
"""Exit codes with a meaning."""


def measure(record: Record, expected: Expected) -> Measure:
    """The exit code of the expectation's own command, where it is an answer."""
    asked = next((event for event in record.seen(CommandAsked) if event.text == expected.text), None)
    if asked is None:
        return Measure.missing("count", "the command was not run: the run did not come to its end")
    evidence = {"log": asked.log, "seconds": asked.seconds, "exit_code": asked.exit_code, "last": list(asked.last)}
    if asked.exit_code not in (HOLDS, FAILS):
        return Measure.missing("count", asked.says, **evidence)
    return Measure(float(asked.exit_code), "count", asked.says, evidence=evidence)


def _missed(item: Item, _: Tables) -> str:
    """What the command printed last, where it printed anything: that is what its writer wants read."""
    command, said = wanted(str(item["target"])), str(item["says"]).partition(": ")[2]
    return f"{upper(said)}, says the command {command}" if said else f"The command {command} says no"


# -- what it is tried by ------------------------------------------------------------------------------


def _ran(run: Altered, **more: object) -> None:
    says = {"text": "command = 0", "seconds": 0.2, "says": "exit code 0", "log": "expect-1.log", "last": []}
    run.add("returned", 29.9, "expect.command", exit_code=HOLDS, **says)


def the_command_said_no(run: Altered, **more: object) -> None:
    _asked(run).update(exit_code=FAILS, says="exit code 1: 3 orders have no invoice")


def the_command_did_not_know(run: Altered, **more: object) -> None:
    _asked(run).update(exit_code=UNKNOWN, says="exit code 3")


def the_command_was_not_over_in_time(run: Altered, **more: object) -> None:
    _asked(run).update(exit_code=None, says="not over within 30 s, and was ended")


def the_command_was_never_run(run: Altered, **more: object) -> None:
    run.drop("expect.command")


def _asked(run: Altered) -> dict[str, object]:
    return first(run.events, kind="expect.command")


CHECKS = (
    Check(
        "command",
        "count",
        lambda record, expected, _: measure(record, expected),
        Words(
            _missed,
            lambda item: filled("the command {want} holds", item),
            lambda item: filled("The command {want} holds", item),
            "a command of the experiment",
        ),
        group="recovery",
        scope=Scope.RUN,
        command=True,
        meaning=(
            "What a program of yours says once the load has settled, by its exit code: 0 holds, 1 fails. Code 3, or "
            "no end in time, is inconclusive; any other code is an error of the run. What it printed is in the run's "
            "logs folder."
        ),
        helps=("read-your-check",),
        order=300,
        trial=Trial(
            "0",
            None,
            (the_command_said_no,),
            (the_command_did_not_know, the_command_was_not_over_in_time, the_command_was_never_run),
            given=(_ran,),
        ),
    ),
)
