"""``python roll.py LAB NODE...``: restarts nodes of a lab one after the other, as an operator would: allocation of
replicas off, stop, start, allocation on, the next one when the cluster is green. With ``--at-once`` all together."""

from __future__ import annotations

import sys

from chaos.opensearch.views import administer, await_green, newest, views
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

ENABLE = "cluster.routing.allocation.enable"


def allocate(lab: LocalLab, what: str | None) -> None:
    status, answer = administer(lab, "PUT", "/_cluster/settings", {"persistent": {ENABLE: what}})
    if status != 200:
        raise SystemExit(f"the settings answered {status}: {answer}")


def everybody(lab: LocalLab) -> bool:
    seen = newest(views(lab))
    return seen is not None and seen.nodes >= {node.name for node in lab.topology.nodes}


def main(name: str, *words: str) -> None:
    lab = LocalLab.attach(name)
    nodes = [word for word in words if not word.startswith("--")]
    together = [nodes] if "--at-once" in words else [[node] for node in nodes]
    for some in together:
        if "--plainly" not in words:
            allocate(lab, "primaries")
        for node in some:
            lab.stop_node(node)
        for node in some:
            lab.start_node(node)
        for node in some:
            print(f"{node} was restarted", flush=True)
        if "--plainly" not in words:
            if not wait_until(lambda: everybody(lab), 180):
                raise SystemExit(f"{' and '.join(some)} did not come back")
            allocate(lab, None)
        if not await_green(lab, 180)[0]:
            raise SystemExit(f"not green after {' and '.join(some)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
