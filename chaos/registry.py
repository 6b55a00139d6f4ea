"""Everything that is found by its name, composed: the one module that knows kinds, providers, metrics and workloads.

Ours come first, and then what other installed packages bring (:mod:`chaos.base.plugins`).

``python -m chaos.registry`` writes what is published of them: the JSON Schemas, docs/reference.md and
docs/instruments.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from chaos import providers
from chaos.base import operations
from chaos.checks import catalogue, instruments
from chaos.checks.check import Rests, Scope
from chaos.definitions import loading, reference, schema
from chaos.definitions.actions import ACTIONS
from chaos.definitions.expectations import Metric, Unit
from chaos.definitions.experiment import Experiment, LoadFile
from chaos.definitions.grammar import Grammar, HelperKind
from chaos.definitions.steps import FaultParams
from chaos.faults import kinds, select
from chaos.faults.fault import Fault
from chaos.faults.offers import Providers
from chaos.load import clients, workloads
from chaos.targets.labs import kinds as targets
from chaos.targets.labs.base import BaseLab

FAULTS = kinds.discover()
WORKLOADS = workloads.declared()
TAKEN = {*LoadFile.model_fields, *(metric.partition(".")[0] for metric, _, _ in catalogue.metrics(()))}
"""What stands in a load, or before the first dot of a metric, and is no operation."""
for _workload, _declared in WORKLOADS.items():
    operations.refuse_wrong(_workload, _declared, TAKEN)
METRICS = {
    metric: Metric(
        metric,
        cast(Unit, check.unit),
        check.scope is Scope.RUN,
        check.needs,
        operation,
        of_writes=check.rests is Rests.DATA or check.group == "writes",
        of_controllers=check.of_controllers,
        of_replicas=check.of_replicas,
        of_store=check.of_store,
        of_acting=check.of_acting,
        of_uploads=check.of_uploads,
        of_service=check.of_service,
        of_rollover=check.of_rollover,
        actions=check.actions,
        promise=check.promise,
        command=check.command,
    )
    for metric, operation, check in catalogue.metrics(operations.names(WORKLOADS))
}
HELPERS = {name: HelperKind(helper.says, helper.clients) for name, helper in clients.helpers().items()}
GRAMMAR = Grammar(
    FAULTS,
    ACTIONS,
    METRICS,
    WORKLOADS,
    settings=workloads.settings_of,
    queries=workloads.queries_of,
    mapping=workloads.mapping_of,
    helpers=HELPERS,
)
PROVIDERS = Providers(providers.discover(), FAULTS)


def load_experiment(path: str | Path, **options: Any) -> Experiment:
    """:func:`chaos.definitions.loading.load_experiment` with everything that is known here."""
    return loading.load_experiment(path, GRAMMAR, **options)


def ready(id: str, params: FaultParams, lab: BaseLab, **options: Any) -> Fault:
    """:func:`chaos.faults.select.ready` with every provider that is known here."""
    return select.ready(id, params, lab, PROVIDERS.on(lab.lacks, targets.named(lab.kind).order), **options)


def main() -> None:
    """Write the committed files that are made from the grammar, and print where they are."""
    for path in schema.write(GRAMMAR):
        print(path)
    reference.FILE.write_text(reference.markdown(GRAMMAR))
    print(reference.FILE)
    instruments.FILE.write_text(instruments.markdown())
    print(instruments.FILE)


if __name__ == "__main__":
    main()
