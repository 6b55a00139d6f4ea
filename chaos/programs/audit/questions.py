"""The GETs that the audit asks, all of them: a cluster, saved answers and the script that saves them share the list."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote


class Question(NamedTuple):
    """``name``: of the file that keeps its answer. ``about``: what it tells, for people who read the script."""

    name: str
    path: str
    about: str


_INDEX = (
    *("number_of_shards", "number_of_replicas", "auto_expand_replicas", "number_of_search_replicas", "blocks"),
    *("translog.durability", "unassigned", "routing.allocation", "allocation.max_retries", "replication.type"),
    *("frozen", "store.type", "remote_store.enabled", "verified_before_close"),
)
_STATE = (
    "metadata.cluster_coordination",
    "metadata.indices.*.state",
    "metadata.weighted_shard_routing",
    "metadata.decommissionedAttribute",
    "blocks.global",
    "restore",
    "snapshots.snapshots.repository",
    "snapshots.snapshots.snapshot",
    "snapshots.snapshots.state",
    "snapshots.snapshots.start_time_millis",
    "routing_table.indices.*.shards.*.shard",
    "routing_table.indices.*.shards.*.index",
    "routing_table.indices.*.shards.*.state",
    "routing_table.indices.*.shards.*.unassigned_info",
    "routing_table.indices.*.shards.*.recovery_source.type",
)
VERSION = Question("version", "/", "which OpenSearch it is")
NODES = Question(
    "nodes",
    "/_nodes/settings,jvm,os?flat_settings=true&timeout=10s&filter_path=_nodes,nodes.*.name,nodes.*.ip,nodes.*.host,"
    "nodes.*.roles,nodes.*.attributes,nodes.*.settings,nodes.*.jvm.mem.heap_max_in_bytes,nodes.*.os.allocated_processors",
    "roles, zones, heap and opensearch.yml of each node",
)
STATS = Question(
    "stats",
    "/_nodes/stats/os,jvm,fs,breaker?timeout=10s&filter_path=_nodes,nodes.*.name,nodes.*.timestamp,"
    "nodes.*.os.cpu.percent,nodes.*.os.mem.total_in_bytes,nodes.*.jvm.mem.heap_used_percent,nodes.*.jvm.mem.pools.old,"
    "nodes.*.fs.total.total_in_bytes,nodes.*.fs.total.available_in_bytes,nodes.*.breakers.parent.limit_size_in_bytes",
    "processors, memory, heap, storage and limits of each node, one sample",
)
SETTINGS = Question(
    "settings", "/_cluster/settings?include_defaults=true&flat_settings=true", "what is set for the cluster"
)
INDICES = Question(
    "indices",
    "/_all/_settings?expand_wildcards=all&filter_path="
    + ",".join([*(f"*.settings.index.{name}" for name in _INDEX), "*.settings.archived"]),
    "copies, blocks and settings of each index",
)
COPIES = Question(
    "copies",
    "/_cat/shards?format=json&bytes=b&h=index,shard,prirep,state,store,node",
    "where each copy lies, and its size",
)
STATE = Question(
    "state",
    "/_cluster/state/metadata,blocks,routing_table,customs?filter_path=" + ",".join(_STATE),
    "voting configuration, closed indices, weights, decommissions, restores, snapshots under way, unassigned copies",
)
EXPLAIN = Question(
    "explain",
    "/_cluster/allocation/explain",
    "why the first unassigned copy stays so; answers 400 where there is none",
)
INDEX_TEMPLATES = Question(
    "index-templates",
    "/_index_template?filter_path=index_templates.name,index_templates.index_template.index_patterns,"
    "index_templates.index_template.composed_of,index_templates.index_template.data_stream,"
    "index_templates.index_template.template.settings",
    "what new indices and data streams get",
)
COMPONENT_TEMPLATES = Question(
    "component-templates",
    "/_component_template?filter_path=component_templates.name,"
    "component_templates.component_template.template.settings",
    "parts of index templates",
)
LEGACY_TEMPLATES = Question(
    "legacy-templates", "/_template?filter_path=*.index_patterns,*.settings", "templates of the old kind"
)
STREAMS = Question(
    "data-streams", "/_data_stream?filter_path=data_streams.name,data_streams.template", "data streams by template"
)
REPOSITORIES = Question(
    "repositories", "/_cat/repositories?format=json&h=id,type", "repositories, of snapshots and remote-backed storage"
)
SHALLOW = Question(
    "shallow-repositories",
    "/_snapshot?flat_settings=true&filter_path=*.settings.remote_store_index_shallow_copy",
    "which repositories take shallow snapshots: nothing else of their settings",
)
POLICIES = Question(
    "snapshot-policies",
    "/_plugins/_sm/policies/*/_explain",
    "how snapshot policies went; answers 400 or 404 without index management",
)
MANAGED = Question(
    "managed-indices",
    "/_plugins/_ism/explain/*?size=1000",
    "how policies of indices went; answers 400 or 404 without index management",
)
CERTIFICATES = Question(
    "certificates",
    "/_plugins/_security/api/certificates",
    "until when certificates hold; asked as a super admin, refused to others, 400 or 404 without the security plugin",
)
USAGE = Question(
    "usage",
    "/_nodes/usage/rest_actions?timeout=10s&filter_path=_nodes,nodes.*.timestamp,nodes.*.since,nodes.*.rest_actions",
    "how many requests of each kind each node was sent since it started; nothing of what is in them",
)
QUESTIONS = (
    *(VERSION, NODES, STATS, SETTINGS, INDICES, COPIES, STATE, EXPLAIN, INDEX_TEMPLATES, COMPONENT_TEMPLATES),
    *(LEGACY_TEMPLATES, STREAMS, REPOSITORIES, SHALLOW, POLICIES, MANAGED, CERTIFICATES, USAGE),
)
SNAPSHOTS = Question(
    "snapshots.REPOSITORY",
    "/_snapshot/REPOSITORY/_all?ignore_unavailable=true&filter_path=snapshots.snapshot,snapshots.state,"
    "snapshots.start_time_in_millis,snapshots.end_time_in_millis",
    "the snapshots of one repository, asked of each",
)


def snapshots_in(repository: str) -> Question:
    """What is asked of a repository. Its name has no slash, so it names a file."""
    name, path, about = SNAPSHOTS
    return Question(
        name.replace("REPOSITORY", repository), path.replace("REPOSITORY", quote(repository, safe="")), about
    )
