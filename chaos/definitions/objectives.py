"""Objectives given beside the file: ``--objective read=100ms`` instead of the file's ``good: ok within ...``.

The experiment that comes out is the one that is planned, run and judged; what the file said stays in it
(:attr:`.Experiment.good_in_file`), so that plan and report can say both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from chaos.base.errors import InvalidInput
from chaos.base.operations import STREAM, USUAL
from chaos.base.units import Duration
from chaos.definitions.experiment import Experiment, Operation

OPTION = "--objective"


def parse(
    given: Iterable[str], operations: Sequence[str], option: str = OPTION, *, streams: bool = False
) -> dict[str, Duration]:
    """What the option's values say: operation, or ``""`` for whatever the load has, to seconds.

    ``operations``: those that a grammar knows. ``streams``: it is of one experiment, and any name may be that of a
    stream of it; :func:`override` refuses what is none.
    Raises :class:`InvalidInput` for an unknown operation, a wrong duration, or two values for one operation.
    """
    found: dict[str, Duration] = {}
    for text in given:
        name, equals, duration = text.partition("=")
        if not equals:
            name, duration = "", text
        if equals and name not in operations and not (streams and re.match(STREAM, name)):
            raise InvalidInput(
                f"{option} {text}: there is no operation {name!r}", remedy=f"expected {' or '.join(operations)}"
            )
        if name in found or (found and "" in (name, *found)):
            raise InvalidInput(f"{option} {text}: an objective is given twice", remedy="give one for each operation")
        try:
            found[name] = Duration.parse(duration)
        except InvalidInput as error:
            raise InvalidInput(f"{option} {text}: {error.message}") from None
        if found[name] <= 0:
            raise InvalidInput(f"{option} {text}: nothing is answered in no time: expected more than 0")
    return found


def override(experiment: Experiment, given: Mapping[str, Duration], option: str = OPTION) -> Experiment:
    """The experiment with these objectives. One that the file states itself already changes nothing.

    Raises :class:`InvalidInput` for an operation that the load does not have, or whose objective ``--set`` gives too.
    """
    for name in given:
        if name and experiment.load.operation(name) is None:
            known = [each.name for each in experiment.load.operations]
            if name not in {kind.name for kind in USUAL}:
                raise InvalidInput(
                    f"{option} {name}={given[name].text}: there is no operation {name!r}",
                    remedy=f"expected {' or '.join(known)}",
                )
            raise InvalidInput(
                f"{option} {name}={given[name].text}: the load of {experiment.file} has no {name}s",
                remedy=f"leave {name}= out",
            )
    for operation in experiment.load.operations:
        path = f"load.{'streams.' if operation.stream else ''}{operation.name}.good"
        also = next((each for each in experiment.overrides if f"{path}.".startswith(f"{each}.")), None)
        if also is not None and (wanted := given.get(operation.name, given.get(""))) is not None:
            raise InvalidInput(
                f"{option} {wanted.text} and {also}={experiment.overrides[also]} say the same of {operation.name}s",
                remedy="leave one of them out",
            )
    changed: list[Operation] = []
    stated = dict(experiment.good_in_file)
    for operation in experiment.load.operations:
        wanted = given.get(operation.name, given.get("", operation.good_within))
        if wanted != operation.good_within and (says := experiment.load.client.unseen(wanted, operation)):
            raise InvalidInput(f"{option} {operation.name}={wanted.text}: {says}")
        changed.append(operation.model_copy(update={"good_within": wanted}))
        if wanted != operation.good_within and stated.setdefault(operation.name, operation.good_within) == wanted:
            del stated[operation.name]
    if tuple(changed) == experiment.load.operations:
        return experiment
    load = experiment.load.model_copy(update={"operations": tuple(changed)})
    return experiment.model_copy(update={"load": load, "good_in_file": stated})


def options(experiment: Experiment) -> list[str]:
    """The option's values that make this experiment of its file again."""
    return [
        f"{operation.name}={operation.good_within.text}"
        for operation in experiment.load.operations
        if operation.name in experiment.good_in_file
    ]


def sentences(experiment: Experiment) -> list[str]:
    """What the command line changed, for people: one sentence for each operation."""
    return [
        f"{operation.name}s: objective {operation.good_within.text}, given on the command line; "
        f"the file says {experiment.good_in_file[operation.name].text}"
        for operation in experiment.load.operations
        if operation.name in experiment.good_in_file
    ]
