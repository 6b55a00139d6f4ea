"""Whether OpenSearch takes the settings that an experiment changes: asked before the load, and not first when its phase
has come.

Which settings there are, only a running cluster knows (plugins bring their own, and many names have parts that are
free), so loading a file cannot tell. A setting that is not set is set to nothing, which changes nothing: OpenSearch
answers as it would to a value, with 400 for a name that it does not know and for one that cannot be changed while it
runs (``AbstractScopedSettings.updateSettings`` of 3.8.0). Of a cluster that is not ours its own settings are let alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from chaos.base.errors import InvalidInput
from chaos.definitions import Experiment
from chaos.faults.kinds.settings import SettingsChange, effective
from chaos.opensearch.administration import settings_path
from chaos.opensearch.views import administer
from chaos.run import plan
from chaos.targets.protocol import Lab


def refuse_unknown(lab: Lab, experiment: Experiment, index: str, *, ours: bool) -> None:
    """Raises InvalidInput for settings that OpenSearch will not take. ``index``: the load's, which must be there.

    ``ours``: whether the cluster is. Raises LabError when it does not answer.
    """
    if found := list(_unknown(lab, experiment, index, ours=ours)):
        raise InvalidInput("; ".join(found), remedy="GET _cluster/settings?include_defaults=true lists the names")


def _unknown(lab: Lab, experiment: Experiment, index: str, *, ours: bool) -> Iterator[str]:
    held: dict[str | None, dict[str, bool]] = {}
    for each in plan.faults(experiment):
        params = each.params
        if not isinstance(params, SettingsChange) or params.index is not None or not (ours or params.scope == "index"):
            continue
        where = index if params.scope == "index" else None
        if where not in held:
            held[where] = _held(lab, where)
        for key in params.full:
            if held[where].get(key):
                continue  # it is set, so it is known; and to set it to nothing would change it
            if (why := _refused(lab, where, key)) is not None:
                near = difflib.get_close_matches(key, held[where], n=1)
                guess = f'; did you mean "{near[0]}"?' if near and near[0] != key else ""
                yield f"settings.change in phase {each.phase}: OpenSearch does not take {key} ({why}){guess}"


def _held(lab: Lab, index: str | None) -> dict[str, bool]:
    """Setting → whether it is set, by the first node that tells; those at their defaults are there as well."""
    for node in lab.viewers:
        if (found := effective(lab, node, index)) is not None:
            return {key: is_set for key, (_, is_set) in found.items()}
    return {}


def _refused(lab: Lab, index: str | None, key: str) -> str | None:
    """OpenSearch's reason against a setting; None: it takes it."""
    body = {"persistent": {key: None}} if index is None else {key: None}
    status, answer = administer(lab, "PUT", settings_path(index), body)
    if status != 400:
        return None
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("reason") if isinstance(error, dict) else error)[:200]
