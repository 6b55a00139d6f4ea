"""The least that a user needs on a cluster that exists: a role of the security plugin, or a policy of AWS IAM.

From the target's file alone: what it does not allow is not in it. The names of actions are OpenSearch's own; each but
that of :data:`AUDIT_SNAPSHOTS` was tried by leaving it out (``tests/cluster/test_rights.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.definitions.existing import RUNGS, ExistingFile
from chaos.opensearch.foreign import CANARY

ROLE = "opensearch-chaos"
LOOK = (
    "cluster:monitor/main",
    "cluster:monitor/health",
    "cluster:monitor/state",
    "cluster:monitor/shards",
    "cluster:monitor/nodes/info",
    "cluster:monitor/nodes/stats",
    "cluster:admin/routing/awareness/weights/get",
    "cluster:admin/decommission/awareness/get",
)
"""Of the cluster, for looking and planning."""
AUDIT = (
    "cluster:monitor/allocation/explain",
    "cluster:monitor/nodes/usage",
    "cluster:admin/component_template/get",
    "cluster:admin/repository/get",
    "indices:admin/index_template/get",
    "indices:admin/template/get",
)
"""What the audit asks of the cluster beside."""
AUDIT_SNAPSHOTS = ("cluster:admin/snapshot/get",)
"""The same, where there is a repository. The name is from OpenSearch's sources."""
LOOK_AT_INDICES = ("indices:monitor/settings/get", "indices:monitor/stats", "indices:admin/data_stream/get")
"""Of all indices, for looking and planning: the audit reads them."""
RUN = ("indices:data/write/bulk",)
SETTINGS = ("cluster:admin/settings/update",)
ZONES = (
    "cluster:admin/routing/awareness/weights/put",
    "cluster:admin/routing/awareness/weights/delete",
    "cluster:admin/decommission/awareness/put",
    "cluster:admin/decommission/awareness/delete",
    "cluster:admin/voting_config/add_exclusions",
    "cluster:admin/voting_config/clear_exclusions",
)
CONTROLLERS = (
    "cluster:admin/reroute",
    "cluster:admin/voting_config/add_exclusions",
    "cluster:admin/voting_config/clear_exclusions",
)
"""What failover controllers of an experiment need beside: to try copies again that were given up, and to move the
elected cluster manager."""
OWN = ("indices_all",)
"""Of the run's own indices everything: it makes, fills, reads and deletes them."""
DESCRIBE = (
    "es:DescribeDomain",
    "es:DescribeDomainHealth",
    "es:DescribeDomainNodes",
    "es:ListDomainMaintenances",
)
"""What is asked of Amazon OpenSearch Service itself."""
CANARIES = f"{CANARY}-*"


def role(file: ExistingFile) -> dict[str, Any]:
    """The body of ``PUT _plugins/_security/api/roles/NAME``."""
    rung = RUNGS.index(file.rung)
    runs, zones = rung >= RUNGS.index("node"), rung >= RUNGS.index("zone")
    acts = (*ZONES, *CONTROLLERS) if zones else ()
    acts = (*acts, *SETTINGS) if zones and file.settings else acts
    cluster = [*LOOK, *AUDIT, *AUDIT_SNAPSHOTS, *(RUN if runs else ()), *acts]
    indices = [{"index_patterns": ["*"], "allowed_actions": list(LOOK_AT_INDICES)}]
    if runs:
        own = [f"{file.prefix}*", CANARIES, *([file.notes] if file.notes else [])]
        indices.append({"index_patterns": own, "allowed_actions": list(OWN)})
    if file.reads is not None:
        indices.append({"index_patterns": list(file.reads.indices), "allowed_actions": ["indices:data/read/search"]})
    return {"cluster_permissions": cluster, "index_permissions": indices}


def policy(file: ExistingFile) -> dict[str, Any]:
    """A policy of IAM for a domain of Amazon OpenSearch Service; where the file names none, ACCOUNT and DOMAIN are to
    be filled in.

    IAM knows methods and paths, no actions: on a path with ``*`` everything below it is allowed.
    """
    region = file.access.sigv4.region if file.access.sigv4 is not None else "REGION"
    domain = f"arn:aws:es:{region}:ACCOUNT:domain/DOMAIN"
    if (named := file.domain) is not None:
        domain = f"arn:aws:es:{named.region}:{named.account}:domain/{named.name}"
    statements = [{"Effect": "Allow", "Action": ["es:ESHttpGet"], "Resource": [f"{domain}/*"]}]
    if file.domain is not None:
        statements.append({"Effect": "Allow", "Action": list(DESCRIBE), "Resource": [domain]})
    if file.reads is not None:
        searches = [f"{domain}/{each}/_search" for each in file.reads.indices]
        statements.append({"Effect": "Allow", "Action": ["es:ESHttpPost"], "Resource": searches})
    rung = RUNGS.index(file.rung)
    if rung >= RUNGS.index("node"):
        if file.domain is not None:
            statements.append({"Effect": "Allow", "Action": ["es:StartDomainMaintenance"], "Resource": [domain]})
        own = [f"{file.prefix}*", *([file.notes, f"{file.notes}/*"] if file.notes else [])]
        statements.append(_statement(domain, ("Head", "Put", "Post", "Delete"), own))
    if rung >= RUNGS.index("zone"):
        zones = ["_cluster/routing/awareness/*", "_cluster/decommission/awareness*"]
        statements.append(_statement(domain, ("Put", "Delete"), zones))
        statements.append(_statement(domain, ("Post", "Delete"), ["_cluster/voting_config_exclusions"]))
        if file.settings:
            statements.append(_statement(domain, ("Put",), ["_cluster/settings"]))
    return {"Version": "2012-10-17", "Statement": statements}


def _statement(domain: str, methods: Sequence[str], paths: Sequence[str]) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": [f"es:ESHttp{method}" for method in methods],
        "Resource": [f"{domain}/{path}" for path in paths],
    }
