"""What is easily forgotten: copies that stay unassigned, restores, snapshots, policies and certificates."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from chaos.base import text
from chaos.opensearch.checklist import Source, Status
from chaos.programs.audit.catalogue import SHOWN, Found, Workload, curl, rule, some
from chaos.programs.audit.facts import Policy, Repository, Sheet, Snapshot

_DOCUMENTATION = "https://docs.opensearch.org/latest"
_SNAPSHOTS = f"{_DOCUMENTATION}/tuning-your-cluster/availability-and-recovery/snapshots"
EXPLAINING = Source(
    "OpenSearch documentation: Cluster allocation explain",
    f"{_DOCUMENTATION}/api-reference/cluster-api/cluster-allocation/",
)
RETRIES = Source(
    "OpenSearch source: MaxRetryAllocationDecider",
    "https://github.com/opensearch-project/OpenSearch/blob/main/server/src/main/java/org/opensearch/cluster/routing/"
    "allocation/decider/MaxRetryAllocationDecider.java",
)
RESTORING = Source("OpenSearch documentation: Snapshots, restore", f"{_SNAPSHOTS}/snapshot-restore/")
SHALLOW = Source(
    "OpenSearch documentation: Shallow snapshots",
    f"{_DOCUMENTATION}/tuning-your-cluster/availability-and-recovery/remote-store/snapshot-interoperability/",
)
POLICIES = Source("OpenSearch documentation: Snapshot management", f"{_SNAPSHOTS}/snapshot-management/")
MANAGING = Source("OpenSearch documentation: Index State Management API", f"{_DOCUMENTATION}/im-plugin/ism/api/")
CERTIFYING = Source("OpenSearch documentation: Certificate APIs", f"{_DOCUMENTATION}/security/api/certificates/index/")
DAY = 86_400.0
OK = Status.OK


# ---- copies --------------------------------------------------------------------------------------------

RESTORED, SNAPSHOT = ("NEW_INDEX_RESTORED", "EXISTING_INDEX_RESTORED"), "SNAPSHOT"
"""Why a copy is unassigned, and where it is to come from, while it waits for a restore; where one has failed, the first
is another."""


@rule(
    "unassigned",
    "No copy waits for a place",
    says="No copy is unassigned. The row says why they became so, and what refuses the first of them a place.",
    source=EXPLAINING,
    remedy="Mend what the explanation names. The row about copies that have started says how bad it is.",
    needs=("state", "explained"),
)
def unassigned(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    left = sheet.state.unassigned
    if not left:
        return Found(OK, "none")
    reasons = Counter(copy.reason for copy in left)
    names = sorted({copy.index for copy in left})
    counted = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    value = f"{text.plural(len(left), 'copy', 'copies')} of {some(names)}: {counted}"
    value += f". First: {text.clip(sheet.explained, 400)}" if sheet.explained else ""
    nodes = tuple(node.name for node in sheet.nodes or () if sheet.explained and node.name in sheet.explained)
    return Found(
        Status.WARN, value, nodes, tuple(names[:SHOWN]), commands=(curl("GET", "/_cluster/allocation/explain?pretty"),)
    )


STOCK_RETRIES = 5


@rule(
    "unassigned.given-up",
    "No copy was given up",
    says="No copy has failed to start index.allocation.max_retries times (5): OpenSearch tries no more then, also when "
    "the cause is gone.",
    source=RETRIES,
    remedy="Mend the cause, then let it try again.",
    needs=("state", "indices"),
)
def given_up(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    most = {index.name: index.settings.get("allocation.max_retries", "") for index in sheet.indices or ()}
    failed = [
        copy
        for copy in sheet.state.unassigned
        if copy.failures >= (int(said) if (said := most.get(copy.index, "")).isdigit() else STOCK_RETRIES)
    ]
    if not failed:
        return Found(OK, "none")
    names = tuple(dict.fromkeys(copy.index for copy in failed))
    first = failed[0]
    value = (
        f"{text.plural(len(failed), 'copy', 'copies')} of {some(names)}, after {text.plural(first.failures, 'failure')}"
    )
    words = text.clip(first.details, 200)
    value += f": {words}" if words else ""
    mend = curl("POST", "/_cluster/reroute?retry_failed=true")
    # others' words may name anything: a page that is mailed leaves them out as it does names
    return Found(Status.FAIL, value, (), names[:SHOWN], others=(words,) if words else (), commands=(mend,))


# ---- snapshots -----------------------------------------------------------------------------------------


@rule(
    "restores",
    "No restore is pending",
    says="No restore is under way, which takes the network and disks of users; and no copy waits for one that has "
    "ended: such an index never turns green by itself.",
    source=RESTORING,
    remedy="Wait for it. Delete an index whose restore ended, and restore it again.",
    needs=("state",),
)
def restores(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    going = sheet.state.restores
    waiting = sorted(
        {copy.index for copy in sheet.state.unassigned if copy.reason in RESTORED or copy.source == SNAPSHOT}
    )
    if going:
        return Found(Status.WARN, f"under way: {some(going)}", others=going[:SHOWN])
    if waiting:
        mends = tuple(curl("DELETE", f"/{name}") for name in waiting[:SHOWN])
        return Found(
            Status.FAIL, f"waits for no restore: {some(waiting)}", indices=tuple(waiting[:SHOWN]), commands=mends
        )
    return Found(OK, "none")


OLD, LONG = 2 * DAY, DAY
"""A repository's newest snapshot is at most so old; one that is being made is at most so long under way."""


def _last(repository: Repository, now: float) -> tuple[Status, str]:
    """How well the snapshots of a repository are."""
    whole = [each for each in repository.snapshots or () if each.state == "SUCCESS"]
    newest: Snapshot | None = (repository.snapshots or (None,))[-1]
    if newest is None:
        return Status.WARN, f"{repository.name} holds no snapshot"
    if not whole:
        return Status.FAIL, f"{repository.name}: none is whole, the newest ({newest.name}) is {newest.state}"
    age = now - (whole[-1].ended or whole[-1].began)
    said = f"{repository.name}: the newest that is whole ({whole[-1].name}) is {age / DAY:.1f} days old"
    if newest.state not in ("SUCCESS", "IN_PROGRESS"):
        return Status.WARN, f"{said}, and {newest.name} is {newest.state}"
    return (Status.WARN if age > OLD else OK), said


@rule(
    "snapshots",
    "Snapshots go on",
    says="Each repository that takes snapshots has one that is whole and at most two days old, and none is being made "
    "for longer than a day. Repositories of remote-backed storage do not count. Without any repository nothing can be "
    "restored, which is worth knowing.",
    source=RESTORING,
    remedy="See what stopped them (GET /_snapshot/_status, the policy, the repository's rights), and take one.",
    needs=("nodes", "repositories", "state"),
)
def snapshots(sheet: Sheet, workload: Workload) -> Found:
    assert sheet.state is not None
    stores = {
        value
        for node in sheet.nodes or ()
        for name, value in node.attributes.items()
        if name.startswith("remote_store.") and name.endswith(".repository")
    }
    taking = [each for each in sheet.repositories or () if each.name not in stores]
    if not taking:
        return Found(Status.INFO, "no repository for snapshots")
    if sheet.asked_at is None:
        return Found(Status.UNKNOWN, "", gap="the nodes did not say what time it is")
    long = [each for each in sheet.state.running if each.began is not None and sheet.asked_at - each.began > LONG]
    found = [_last(each, sheet.asked_at) for each in taking if each.snapshots is not None]
    gap = "; ".join(f"{each.name}: {each.why}" for each in taking if each.snapshots is None) or None
    value = "; ".join(said for _, said in found)
    names = tuple(name for each in taking for name in (each.name, *(s.name for s in (each.snapshots or ())[-1:])))
    if long:
        stuck = some([f"{each.repository}/{each.name}" for each in long])
        value = "; ".join(filter(None, (f"for longer than a day under way: {stuck}", value)))
        mends = tuple(curl("DELETE", f"/_snapshot/{each.repository}/{each.name}") for each in long[:SHOWN])
        return Found(Status.FAIL, value, gap=gap, others=names, commands=mends)
    status = max((bad for bad, _ in found), key=lambda each: each.badness, default=Status.UNKNOWN)
    tired = [each.name for each in taking if each.snapshots is not None and _last(each, sheet.asked_at)[0] is not OK]
    day = f"{datetime.fromtimestamp(sheet.asked_at, UTC):%Y-%m-%d}"
    mends = tuple(curl("PUT", f"/_snapshot/{name}/audit-{day}") for name in tired[:SHOWN])
    return Found(status, value, gap=gap, others=names, commands=mends)


STORED = "remote_store.enabled"
"""The setting of an index whose segments and translog are in a remote store."""


@rule(
    "snapshots.shallow",
    "Snapshots are full copies",
    says="No repository takes shallow snapshots while indices are in a remote store. A shallow snapshot refers to "
    "segments in that store, and of those that were taken during writes many refer to segments that were merged away: "
    "the snapshot is a success, and its restore lacks shards. docs/upstream.md "
    "(`shallow-snapshot-lacks-merged-segments`) says on which versions that was seen.",
    source=SHALLOW,
    remedy="Register the repository again with remote_store_index_shallow_copy false, and take a snapshot. Restore "
    "under another name, once, what is only in shallow snapshots.",
    needs=("indices", "shallow"),
)
def shallow(sheet: Sheet, workload: Workload) -> Found:
    names = (sheet.shallow or ())[:SHOWN]
    if not names:
        return Found(OK, "no repository takes shallow snapshots")
    stored = [each.name for each in sheet.indices or () if each.settings.get(STORED) == "true"]
    takes = f"shallow snapshots go to {some(sheet.shallow or ())}"
    if not stored:
        return Found(Status.INFO, f"{takes}, and no index is in a remote store", others=names)
    value = f"{takes}, and {text.plural(len(stored), 'index is', 'indices are')} in a remote store"
    return Found(Status.WARN, value, indices=tuple(sorted(stored)[:SHOWN]), others=names)


def _of_policies(found: tuple[Policy, ...], what: str, absent: str | None) -> Found | tuple[list[Policy], list[str]]:
    if absent is not None:
        return Found(Status.INFO, f"{absent}: no {what}")
    return [each for each in found if each.problem], [each.name for each in found if not each.enabled]


@rule(
    "snapshots.policies",
    "Policies of snapshots go well",
    says="The last execution of each policy of snapshot management went well, and none is switched off.",
    source=POLICIES,
    remedy="Mend what its explanation names, and start it again.",
    needs=("policies",),
)
def snapshot_policies(sheet: Sheet, workload: Workload) -> Found:
    said = _of_policies(sheet.policies or (), "policy of snapshots", sheet.absent.get("snapshot-policies"))
    if isinstance(said, Found):
        return said
    bad, off = said
    words = tuple(text.clip(each.problem, 160) for each in bad[:SHOWN])
    parts = [f"{each.name}: {said}" for each, said in zip(bad[:SHOWN], words, strict=True)]
    parts += [f"switched off: {some(off)}"] if off else []
    if not parts:
        return Found(OK, text.plural(len(sheet.policies or ()), "policy", "policies"))
    names = (*(each.name for each in bad[:SHOWN]), *off[:SHOWN], *words)
    mends = tuple(curl("POST", f"/_plugins/_sm/policies/{name}/_start") for name in off[:SHOWN])
    mends += tuple(curl("GET", f"/_plugins/_sm/policies/{each.name}/_explain") for each in bad[:SHOWN])
    return Found(Status.FAIL if bad else Status.WARN, "; ".join(parts), others=names, commands=mends)


@rule(
    "indices.managed",
    "Policies of indices go on",
    says="No index has failed a step of its policy: it is rolled over, moved or deleted no more, and grows until a "
    "limit of its disk or of its documents.",
    source=MANAGING,
    remedy="Mend the cause that the policy names, then let it try again.",
    needs=("managed",),
)
def managed_indices(sheet: Sheet, workload: Workload) -> Found:
    said = _of_policies(sheet.managed or (), "policy of indices", sheet.absent.get("managed-indices"))
    if isinstance(said, Found):
        return said
    bad, _ = said
    if not bad:
        return Found(OK, f"{text.plural(len(sheet.managed or ()), 'index', 'indices')} managed")
    names = tuple(each.name for each in bad)
    words = text.clip(bad[0].problem, 160)
    value = f"{len(bad)} of {len(sheet.managed or ())}: {some(names)} ({words})"
    mends = tuple(curl("POST", f"/_plugins/_ism/retry/{name}") for name in names[:SHOWN])
    return Found(Status.FAIL, value, indices=names[:SHOWN], others=(words,), commands=mends)


# ---- certificates --------------------------------------------------------------------------------------

SOON, NOW = 30 * DAY, 7 * DAY


@rule(
    "certificates",
    "Certificates hold",
    says="Every certificate of REST and transport holds for 30 days more; less is a warning, and a week fails. When it "
    "ends, clients and nodes refuse each other, nodes that restart first.",
    source=CERTIFYING,
    remedy="Renew it, and reload it without a restart.",
    needs=("nodes", "certificates"),
)
def certificates(sheet: Sheet, workload: Workload) -> Found:
    absent = sheet.absent.get("certificates")
    secured = any(node.secured for node in sheet.nodes or ())
    if absent is not None and not secured:
        return Found(Status.INFO, "the security plugin is not here or switched off: it has no certificate")
    if absent is not None:
        return Found(Status.UNKNOWN, "", gap=f"{absent}: this version does not tell them")
    if not sheet.certificates or sheet.asked_at is None:
        return Found(Status.UNKNOWN, "", gap="no certificate was told, or no time")
    first = min(sheet.certificates, key=lambda each: each.ends)
    left = first.ends - sheet.asked_at
    ends = datetime.fromtimestamp(first.ends, UTC)
    value = f"the first ends on {ends:%Y-%m-%d}, in {left / DAY:.0f} days ({first.layer} of {first.node})"
    status = Status.FAIL if left < NOW else Status.WARN if left < SOON else OK
    mends = tuple(
        curl("PUT", f"/_plugins/_security/api/ssl/{layer}/reloadcerts")
        for layer in sorted({each.layer for each in sheet.certificates if each.ends - sheet.asked_at < SOON})
    )
    return Found(status, value, (first.node,), commands=mends)
