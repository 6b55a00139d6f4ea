"""Classes of machines: runs of one may be compared, runs of several are told apart."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.history.models import Plan
from chaos.statistics.facts import Facts


def class_of(plan: Plan) -> str:
    """Where a run was made, as far as it matters: ``x86_64, 2 processors, 25 GB, kernel 6.18``. What is not known is
    said."""
    machine, kernel = plan.get("machine") or {}, (plan.get("versions") or {}).get("kernel")
    usable = machine.get("usable") or {}
    processors = f"{machine.get('processors', 'unknown')} processors"
    if usable.get("processors") is not None and len(usable["processors"]) != usable.get("of"):
        processors = f"{len(usable['processors'])} of {processors}"
    if usable.get("quota") is not None:
        processors += f" with a quota of {usable['quota']:g}"
    release = ".".join(str(kernel).split(".")[:2]) if kernel else "unknown"
    return (
        f"{machine.get('architecture', 'unknown')}, {processors}, {machine.get('memory_gb', 'unknown')} GB, "
        f"kernel {release}"
    )


def classes(runs: Iterable[Facts]) -> tuple[str, ...]:
    """The classes of machines that runs were made on, sorted."""
    return tuple(sorted({class_of(run.plan) for run in runs}))
