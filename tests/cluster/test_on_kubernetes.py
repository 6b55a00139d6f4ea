"""Experiments on a real Kubernetes: a target drafted from it, faults on its pods under the least rights, their end."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
from clusterkit import Cli, cli, events, recovered_elsewhere
from daypods import InPods, chat
from kubebox import images, parts, sample
from kubebox.api import Api, is_ready
from kubebox.making import Box
from kubebox.manifests import HOME, OTHERS, SEARCH, SHOP
from kubebox.plan import stand_in
from kubekit import brought_up
from podruns import experiment, held, target, uids, whole
from ruamel.yaml import YAML

from chaos.base.errors import Exit, LabError
from chaos.base.waiting import wait_until
from chaos.kubernetes import rights
from chaos.kubernetes.client import Client
from chaos.kubernetes.rights import Right

pytestmark = [pytest.mark.cluster, pytest.mark.full, pytest.mark.kubernetes]
ACCOUNT = "opensearch-chaos"


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    if (given := os.environ.get(sample.GIVEN)) is not None:
        yield Box(given)  # who has brought it up takes it away
        return
    with brought_up() as made:
        yield made


def account(api: Api, box: Box, folder: Path, manifests: list[dict[str, Any]]) -> Path:
    """A kubeconfig of a service account with exactly these rules."""
    space = f"/api/v1/namespaces/{SEARCH}/serviceaccounts"
    api.request("POST", space, {"metadata": {"name": ACCOUNT}})
    for item in manifests:
        plural = f"{item['kind'].lower()}s"
        scope = f"/namespaces/{SEARCH}" if "namespace" in item["metadata"] else ""
        path = f"/apis/{rights.RBAC}/v1{scope}/{plural}"
        api.request("DELETE", f"{path}/{item['metadata']['name']}")
        status, answer = api.request("POST", path, item)
        assert status == 201, answer
    return api.as_account(SEARCH, ACCOUNT, box.layout.kubeconfig, folder / "account.yaml")


def lacks(client: Client, needed: list[Right], missing: Right) -> bool:
    """Whether the API server says so: it takes a moment to know new rules."""
    return missing in rights.missing(client, SEARCH, needed)


def test_an_eviction_runs_under_the_least_rights_and_is_refused_without_any_of_them(box: Box, tmp_path: Path) -> None:
    api = box.api()
    file = target(box, tmp_path)
    asked = experiment(tmp_path, "node.restart: {target: node b-data, how: orderly, within: 150s}")
    code, output = cli("kubernetes", "policy", asked, "--on", file)
    assert code == 0, output
    manifests = [dict(each) for each in YAML(typ="safe").load_all(output)]
    mine = account(api, box, tmp_path, manifests)
    needed = rights.needed(SEARCH, ["node.restart orderly"], forward=True)
    client = Client(None, mine)
    for missing in needed:
        less = rights.manifests(SEARCH, [each for each in needed if each != missing], ACCOUNT)
        account(api, box, tmp_path, less)
        assert wait_until(partial(lacks, client, needed, missing), 10, every=0.2), missing
    client.close()
    file.unlink()
    file = target(box, tmp_path, account(api, box, tmp_path, rights.manifests(SEARCH, needed[:-1], ACCOUNT)))
    code, output = cli("run", asked, "--on", file, "--out", tmp_path / "refused", "--yes")
    assert code == Exit.USAGE and "not allowed: create pods/eviction" in output, output
    account(api, box, tmp_path, manifests)
    before = uids(api)
    code, output = cli("run", asked, "--on", file, "--out", tmp_path / "run", "--yes", timeout=240)
    assert code == Exit.PASS, output
    assert "proven" in output and "clean-up: clean" in output
    after = uids(api)
    assert [name for name in before if after[name] != before[name]] == [_in_zone(file, "b", "data")]
    assert whole(api)


def _in_zone(file: Path, zone: str, role: str) -> str:
    """The node in a zone that has this role, by the file."""
    nodes = YAML(typ="safe").load(file.read_text())["nodes"]
    (name,) = [each for each, node in nodes.items() if node["zone"] == zone and role in node["roles"]]
    return str(name)


DRAIN = "node.drain: {target: zone b, others: [others, shop]}"


def cordoned(api: Api) -> list[str]:
    """Machines that take no new pods."""
    machines = api.get("/api/v1/nodes")["items"]
    return [each["metadata"]["name"] for each in machines if each["spec"].get("unschedulable")]


def zonal(box: Box, folder: Path) -> Path:
    """A target on which a zone may be hit."""
    file = target(box, folder)
    file.write_text(file.read_text().replace("rung: node\n", "rung: zone\n"))
    return file


def test_a_machine_is_drained_once_all_who_are_on_it_are_named_and_takes_pods_again(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    file, before = zonal(box, tmp_path), uids(api)
    unasked = experiment(tmp_path, "node.drain: {target: zone b}")
    code, output = cli("run", unasked, "--on", file, "--out", tmp_path / "refused", "--yes")
    assert code == Exit.USAGE and "would get no other pod on" in output and cordoned(api) == [], output
    code, output = cli("run", experiment(tmp_path, DRAIN), "--on", file, "--out", tmp_path / "run", "--yes",
                       timeout=300)  # fmt: skip
    assert code in (Exit.PASS, Exit.INCONCLUSIVE) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    assert cordoned(api) == [] and wait_until(lambda: whole(api), 150, every=0.5)
    after = uids(api)
    both = {_in_zone(file, "b", role) for role in ("data", "cluster_manager")}
    assert {name for name in before if after[name] != before[name]} == both


def test_a_killed_runner_leaves_no_machine_cordoned(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    file = zonal(box, tmp_path)
    running = Cli("run", experiment(tmp_path, DRAIN), "--on", file, "--yes", "--out", tmp_path / "run")
    assert wait_until(lambda: bool(cordoned(api)), 150, every=0.1)
    running.signal(signal.SIGKILL)
    running.process.wait(20)
    assert wait_until(lambda: not cordoned(api), 60, every=0.2), "the keeper undoes it"
    assert wait_until(lambda: whole(api), 150, every=0.5)
    code, output = cli("recover", timeout=120)
    assert code == Exit.PASS, output


def holding(box: Box, folder: Path) -> tuple[Api, Path, dict[str, str], Cli]:
    """A run that holds a pod down, with its target's file and the pods' uids of before."""
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    file, before = target(box, folder), uids(api)
    asked = experiment(folder, "node.stop: {target: node b-data}")
    running = Cli("run", asked, "--on", file, "--yes", "--out", folder / "run")
    assert wait_until(lambda: bool(held(api)), 150, every=0.1)
    return api, file, before, running


@pytest.mark.sample
def test_a_killed_runner_leaves_no_pod_held(box: Box, tmp_path: Path) -> None:
    api, _, before, running = holding(box, tmp_path)
    running.signal(signal.SIGKILL)
    running.process.wait(20)
    assert wait_until(lambda: not held(api), 60, every=0.2), "the keeper undoes it"
    assert wait_until(lambda: whole(api), 150, every=0.5)
    assert uids(api) == before
    code, output = cli("recover", timeout=120)
    assert code == Exit.PASS, output


def test_another_machine_takes_back_what_a_dead_run_and_its_dead_keeper_hold(box: Box, tmp_path: Path) -> None:
    api, file, before, running = holding(box, tmp_path)
    killed_with_helpers(running, tmp_path)
    assert held(api), "its keeper is dead too"
    code, output = recovered_elsewhere(file, tmp_path)
    assert code == Exit.PASS and not held(api), output
    assert wait_until(lambda: whole(api), 150, every=0.5) and uids(api) == before
    code, output = cli("recover", timeout=120)
    assert code == Exit.PASS, output


def test_a_planted_weakness_fails_there(box: Box, tmp_path: Path) -> None:
    """Writes to the primaries of a paused node hang until it is noticed: less than nine of ten are answered."""
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    asked = experiment(tmp_path, "node.pause: {target: node b-data}")
    planted = '  - {phase: hit, write.good: ">= 90%"}\n  - {acknowledged.lost: 0}\n'
    asked.write_text(asked.read_text().replace("  - {acknowledged.lost: 0}\n", planted))
    code, output = cli("run", asked, "--on", helped(box, tmp_path), "--out", tmp_path / "run", "--yes", timeout=300)
    assert code == Exit.WEAKNESS and "clean-up: clean" in output, output
    assert "not proven" not in output and nothing_left(api, box), output


@pytest.mark.parametrize("number", range(10))
def test_where_nothing_is_done_nothing_is_found(box: Box, tmp_path: Path, number: int) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    code, output = cli("run", "experiments/no-fault.yaml", "--on", target(box, tmp_path), "--out", tmp_path / "run",
                       "--yes", timeout=420)  # fmt: skip
    assert code == Exit.PASS and "clean-up: clean" in output, output


def test_an_eviction_by_somebody_else_ends_the_run_and_is_named(box: Box, tmp_path: Path) -> None:
    api, file, _, running = holding(box, tmp_path)
    manager = _in_zone(file, "b", "cluster_manager")
    assert api.evict(SEARCH, manager)[0] == 201
    code, output = running.end(240)
    assert code == Exit.ABORTED, output
    assert "none of our doing" in output and manager in output
    assert not held(api) and wait_until(lambda: whole(api), 150, every=0.5)


# ---- by helper pods ------------------------------------------------------------------------------------------

PARTITION = 'network.drop: {links: "between (role data and zone a) and (role data and zone c)"}'


def helped(box: Box, folder: Path, kubeconfig: Path | None = None) -> Path:
    """A target whose file names an image for helper pods."""
    file = zonal(box, folder) if kubeconfig is None else target(box, folder, kubeconfig)
    text = file.read_text().replace("rung: node\n", "rung: zone\n")
    file.write_text(text.replace("\n  forward:", f"\n  helper: {images.HELPER}\n  forward:", 1))
    return file


def helpers(api: Api) -> dict[str, str]:
    """Jobs of helper pods, each with its uid."""
    items = api.get(f"/apis/batch/v1/namespaces/{SEARCH}/jobs")["items"]
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in items}


def launchers() -> list[psutil.Process]:
    """The first processes of helper pods."""
    found = []
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if words[:1] == ["python3"] and any("signal.sigwait" in word for word in words):
            found.append(each)
    return found


def paused() -> list[int]:
    """Nodes of the box that are stopped by a signal."""
    found = []
    for each in psutil.process_iter(["status", "cmdline"]):
        words = each.info["cmdline"] or []
        java = "org.opensearch.bootstrap.OpenSearch" in words and any(HOME in word for word in words)
        if java and each.info["status"] == psutil.STATUS_STOPPED:
            found.append(each.pid)
    return found


def names(process: psutil.Process, folder: Path) -> bool:
    """Whether a process has a path in this folder among its arguments."""
    return any(str(folder) in word for word in process.info["cmdline"] or [])


def nothing_left(api: Api, box: Box) -> bool:
    """No helper, none of its records on any machine, and no node that is stopped."""
    records = [stand_in(box.layout.of(zone), "/run") / "opensearch-chaos" for zone in "abc"]
    return not helpers(api) and not launchers() and not paused() and not any(each.exists() for each in records)


@pytest.mark.sample
def test_packets_between_two_pods_vanish_under_the_least_rights_and_come_again(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    asked, file = experiment(tmp_path, PARTITION), helped(box, tmp_path)
    code, output = cli("kubernetes", "policy", asked, "--on", file)
    assert code == 0, output
    mine = account(api, box, tmp_path, [dict(each) for each in YAML(typ="safe").load_all(output)])
    file.unlink()
    file = helped(box, tmp_path, mine)
    before = uids(api)
    code, output = cli("run", asked, "--on", file, "--out", tmp_path / "run", "--yes", timeout=300)
    assert code == Exit.PASS and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    assert nothing_left(api, box) and uids(api) == before


def pausing(box: Box, folder: Path) -> tuple[Api, Cli]:
    """A run that has paused a node by a helper pod."""
    api = box.api()
    assert wait_until(lambda: whole(api), 120, every=0.5)
    asked = experiment(folder, "node.pause: {target: node b-data}")
    running = Cli("run", asked, "--on", helped(box, folder), "--yes", "--out", folder / "run")
    assert wait_until(lambda: bool(paused()), 150, every=0.1)
    return api, running


def test_a_fault_outlives_its_helper_which_is_made_anew(box: Box, tmp_path: Path) -> None:
    api, running = pausing(box, tmp_path)
    before = helpers(api)
    for each in launchers():
        each.kill()
    assert wait_until(lambda: helpers(api) not in ({}, before), 40, every=0.2), "another helper extends the fault"
    code, output = running.end(240)
    assert code == Exit.PASS and "clean-up: clean" in output, output
    assert nothing_left(api, box)


def killed_with_helpers(running: Cli, folder: Path) -> None:
    """Runner, keeper and helpers at once."""
    mine = [each.pid for each in psutil.process_iter(["cmdline"]) if names(each, folder)]
    for pid in [running.process.pid, *mine, *(each.pid for each in launchers())]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.process.wait(20)


def test_where_all_of_us_die_the_machine_undoes_it(box: Box, tmp_path: Path) -> None:
    api, running = pausing(box, tmp_path)
    killed_with_helpers(running, tmp_path)
    assert paused(), "nobody but its dead-man is there to undo it"
    assert wait_until(lambda: not paused(), 75, every=0.5)
    code, output = cli("recover", timeout=180)
    assert code == Exit.PASS, output
    assert wait_until(lambda: nothing_left(api, box), 60, every=0.5)
    assert wait_until(lambda: whole(api), 150, every=0.5)


CUT = "node.isolation: {target: zone b, others: [others, shop]}"


def test_a_machine_is_cut_off_with_its_kubelet_and_comes_back(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    file, before = helped(box, tmp_path), uids(api)
    code, output = cli("run", experiment(tmp_path, "node.isolation: {target: zone b}"), "--on", file, "--yes",
                       "--out", tmp_path / "refused")  # fmt: skip
    assert code == Exit.USAGE and "would be cut off with node-b" in output and nothing_left(api, box), output
    code, output = cli("run", experiment(tmp_path, CUT), "--on", file, "--out", tmp_path / "run", "--yes", timeout=420)
    assert code in (Exit.PASS, Exit.WEAKNESS, Exit.INCONCLUSIVE) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    assert nothing_left(api, box) and wait_until(lambda: whole(api), 150, every=0.5)
    assert uids(api) == before, "Kubernetes waits for five minutes before it deletes a pod"


def test_where_all_of_us_die_the_machine_is_let_in_again(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    running = Cli("run", experiment(tmp_path, CUT), "--on", helped(box, tmp_path), "--yes", "--out", tmp_path / "run")
    assert wait_until(lambda: "b" in unready(api), 240, every=0.2)
    killed_with_helpers(running, tmp_path)
    assert unready(api) == ["b"], "nobody but its dead-man is there to undo it"
    assert wait_until(lambda: not unready(api), 120, every=0.5)
    code, output = cli("recover", timeout=180)
    assert code == Exit.PASS, output
    assert wait_until(lambda: nothing_left(api, box) and whole(api), 150, every=0.5)


def unready(api: Api) -> list[str]:
    """Zones whose machine has not been heard of lately."""
    machines = api.get("/api/v1/nodes")["items"]
    return [each["metadata"]["name"].removeprefix("node-") for each in machines if not is_ready(each)]


BETWEEN = 'links: "between (role data and zone a) and (role data and zone c)"'


@pytest.mark.parametrize(
    "fault",
    [
        f"network.refuse: {{{BETWEEN}}}",
        f"network.reset: {{{BETWEEN}}}",
        f"network.loss: {{{BETWEEN}, share: 40%}}",
        "node.cpu_starvation: {target: node b-data, quota: 10%}",
        "node.dns_outage: {target: node b-data}",
        "node.dns_slowness: {target: node b-data, delay: 2s}",
        "disk.full: {target: node b-data, fill: 60%}",
        "disk.slow: {target: node b-data, write: 256KiB/s}",
        "node.out_of_memory: {target: node b-data}",
        "node.restart: {target: node b-data, how: kill, within: 150s}",
        "zone.power_loss: {zone: b}",
    ],
    ids=lambda fault: fault.partition(":")[0],
)
def test_each_other_kind_is_proven_and_taken_back(box: Box, tmp_path: Path, fault: str) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    code, output = cli("run", experiment(tmp_path, fault), "--on", helped(box, tmp_path), "--out", tmp_path / "run",
                       "--yes", timeout=300)  # fmt: skip
    assert code in (Exit.PASS, Exit.WEAKNESS) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    assert nothing_left(api, box) and wait_until(lambda: whole(api), 150, every=0.5)


def test_a_fault_that_somebody_else_takes_back_is_not_said_to_have_held(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    asked = experiment(tmp_path, "node.dns_outage: {target: node b-data}")
    running = Cli("run", asked, "--on", helped(box, tmp_path), "--out", tmp_path / "run", "--yes")
    assert wait_until(lambda: "fault.in_effect" in {each["kind"] for each in events(tmp_path / "run")}, 150, every=0.2)
    for pid, (line, *_) in tables(box).items():
        nft(pid, "delete", *line.split())
    code, output = running.end(240)
    assert code == Exit.INCONCLUSIVE and "clean-up: clean" in output, output
    assert nothing_left(api, box) and wait_until(lambda: whole(api), 150, every=0.5)


LIAR = """#!/usr/bin/python3 -IS
import json, os, re, sys
words, kept = sys.argv[1:], "/run/nft"
if "-f" in words:
    text = sys.stdin.read()
    open(kept, "w").write(re.search(r"table inet (\\S+)", text)[1])
elif "delete" in words:
    os.remove(kept)
name = open(kept).read() if os.path.exists(kept) else None
table = {"table": {"family": "inet", "name": name}}
rule = {"rule": {"comment": "hit", "expr": [{"counter": {"packets": 99, "bytes": 9999}}]}}
if "-j" in words:
    print(json.dumps({"nftables": [] if name is None else [table] if "tables" in words else [table, rule]}))
"""
"""A program in nft's place that says what nft would, and does nothing."""


def test_a_helper_that_says_that_it_has_done_what_it_has_not_proves_nothing(box: Box, tmp_path: Path) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    running = Cli("run", experiment(tmp_path, PARTITION), "--on", helped(box, tmp_path), "--out", tmp_path / "run",
                  "--yes")  # fmt: skip
    assert wait_until(lambda: "phase.start" in {each["kind"] for each in events(tmp_path / "run")}, 150, every=0.1)
    for each in launchers():
        file = Path(f"/proc/{each.pid}/root/usr/sbin/nft")
        file.unlink()
        file.write_text(LIAR)
        file.chmod(0o755)
    assert len(launchers()) == len(helpers(api)) > 0
    code, output = running.end(300)
    assert code == Exit.INCONCLUSIVE and "clean-up: clean" in output, output
    assert "not proven" in output and tables(box) == {}, output
    assert nothing_left(api, box) and wait_until(lambda: whole(api), 150, every=0.5)


SHIPPED = Path(__file__).parents[2] / "experiments" / "kubernetes"


ELSEWHERE = {"rollout", "rollout-slow-zone", "all-at-once"}
"""In boxes of their own: test_rollout_on_kubernetes, test_all_at_once_on_kubernetes."""


@pytest.mark.parametrize("name", sorted({each.stem for each in SHIPPED.glob("*.yaml")} - ELSEWHERE))
def test_a_shipped_experiment_for_kubernetes_runs_once_all_who_are_hit_are_named(
    box: Box, tmp_path: Path, name: str
) -> None:
    api = box.api()
    assert wait_until(lambda: as_before(box), 240, every=1.0)
    asked = tmp_path / f"{name}.yaml"
    text = (SHIPPED / asked.name).read_text()
    others = "" if "dns_outage" in text else ", others: [others, shop]"
    asked.write_text(text.replace("{target: zone b}", f"{{target: zone b{others}}}"))
    code, output = cli("run", asked, "--on", helped(box, tmp_path), "--out", tmp_path / "run", "--yes", timeout=1200)
    assert code in (Exit.PASS, Exit.WEAKNESS) and "clean-up: clean" in output, output
    assert "proven" in output and "not proven" not in output, output
    assert wait_until(lambda: as_before(box), 300, every=1.0), cordoned(api)
    print(output)


# ---- who dies, and when, is drawn ---------------------------------------------------------------------------------

DRAWN = (
    "node.pause: {target: node b-data}",
    PARTITION,
    "node.stop: {target: node b-data}",
    "disk.full: {target: node b-data, fill: 60%}",
    DRAIN,
)
WAYS_TO_DIE = ("runner", "helpers", "runner, keeper and helpers", "kubelet", "API server")
RUN_SECONDS = 55.0
"""As long as a run is at work, from the begin of its load: warm-up, three phases, and their ends."""


def programs_of(box: Box, way: str) -> list[int]:
    """The processes that die with a part of Kubernetes: the kubelet of the machine that is hit, or the API server."""
    word = "--hostname-override=node-b" if way == "kubelet" else f"--cert-dir={box.layout.keys}"
    return [each.pid for each in psutil.process_iter(["cmdline"]) if word in (each.info["cmdline"] or [])]


def nft(pid: int, *words: str) -> str:
    """What nft prints in the network of a process."""
    inside = ["nsenter", "-t", str(pid), "-n", "--", "nft", *words]
    return subprocess.run(inside, capture_output=True, text=True, check=False).stdout


def tables(box: Box) -> dict[int, list[str]]:
    """Tables of ours, family and name, in the networks of the box's pods and machines, by a process there."""
    found = {}
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if any(str(box.layout.folder) in word or HOME in word for word in words):
            found[each.pid] = [line for line in nft(each.pid, "list", "tables").splitlines() if "oschaos" in line]
    return {pid: lines for pid, lines in found.items() if lines}


def of_others(api: Api) -> dict[str, str]:
    """Pods of those who have nothing to do with it, each with its uid and how often its container was started."""
    found = {}
    for space in (SHOP, OTHERS):
        for each in api.get(f"/api/v1/namespaces/{space}/pods")["items"]:
            started = [told["restartCount"] for told in each["status"].get("containerStatuses", ())]
            found[each["metadata"]["name"]] = f"{each['metadata']['uid']} {started}"
    return found


def as_before(box: Box) -> bool:
    """Nothing of ours is left in Kubernetes, on its machines and in its pods, and OpenSearch is whole."""
    api = box.api()
    try:
        return nothing_left(api, box) and not tables(box) and not cordoned(api) and not unready(api) and whole(api)
    except (LabError, requests.RequestException):  # its API server is being started again
        return False


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_a_random_moment_nothing_is_left_and_nothing_of_others_is_touched(
    box: Box, tmp_path: Path, seed: int
) -> None:
    drawn = random.Random(seed)
    way, fault = WAYS_TO_DIE[seed % len(WAYS_TO_DIE)], DRAWN[(seed // len(WAYS_TO_DIE) + seed) % len(DRAWN)]
    assert wait_until(lambda: as_before(box), 240, every=1.0)
    before = of_others(box.api())
    running = Cli("run", experiment(tmp_path, fault), "--on", helped(box, tmp_path), "--yes", "--out", tmp_path / "run")
    assert wait_until(lambda: any(each["kind"] == "load.start" for each in events(tmp_path / "run")), 150, every=0.2)
    moment = drawn.uniform(0.0, RUN_SECONDS)
    time.sleep(moment)
    began = time.monotonic()
    if "runner" in way:
        killed_with_helpers(running, tmp_path) if "keeper" in way else running.signal(signal.SIGKILL)
    else:
        for pid in [each.pid for each in launchers()] if way == "helpers" else programs_of(box, way):
            os.kill(pid, signal.SIGKILL)
    code, output = running.end(420)
    if "keeper" in way:  # there is no time limit to what holds a pod's image, and no keeper
        assert wait_until(lambda: not paused() and not tables(box), 90, every=0.5), "its dead-man undoes it"
        assert cli("recover", timeout=240)[0] == Exit.PASS
    assert wait_until(lambda: as_before(box), 300, every=1.0), output
    name = fault.partition(":")[0]
    print(f"seed {seed}, {way}, {moment:.0f} s of {name}: nothing of it active after {time.monotonic() - began:.1f} s")
    if "runner" not in way:
        assert code != Exit.DIRTY and "clean-up: clean" in output, output
    assert of_others(box.api()) == before
    code, output = cli("recover", timeout=180)
    assert code == Exit.PASS, output


def test_of_two_runs_that_begin_in_one_second_one_is_refused(box: Box, tmp_path: Path) -> None:
    assert wait_until(lambda: as_before(box), 240, every=1.0)
    asked, file = experiment(tmp_path, "node.pause: {target: node b-data}"), helped(box, tmp_path)
    both = [Cli("run", asked, "--on", file, "--yes", "--out", tmp_path / name) for name in ("one", "two")]
    ended = sorted((each.end(300) for each in both), key=lambda found: found[0])
    assert [code for code, _ in ended] == [Exit.PASS, Exit.USAGE], ended
    assert as_before(box)


# ---- game days that Kubernetes fires ---------------------------------------------------------------------------


def in_pods(box: Box, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> InPods:
    """A day that opens within two minutes, signed and applied. Its target's file names no context: whoever reads it
    elsewhere takes the current one."""
    monkeypatch.setenv("KUBECONFIG", str(box.layout.kubeconfig))
    box.give(parts.suite_image(print))
    folder = folder / "repository"
    folder.mkdir()
    file = target(box, folder)
    file.write_text(re.sub(r"^  (context|kubeconfig): .*\n", "", file.read_text(), flags=re.M))
    day = InPods(box, folder, file, name)
    day.sign()
    day.apply()
    return day


def test_kubernetes_fires_a_game_day_under_what_schedule_prints(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    with chat() as told:
        day = in_pods(box, tmp_path, "tuesday", monkeypatch)
        assert wait_until(day.over, 480, every=1.0), day.said()
    assert day.exit_code() in (Exit.PASS, Exit.INCONCLUSIVE, Exit.WEAKNESS), day.said()
    lines = day.lines()
    (ended,) = [line for line in lines if line["kind"] == "experiment.end"]
    assert ended["clean"] is True, ended
    assert [each["event"] for each in told] == ["before", "begin", "end"]
    assert "patch configmap gameday-tuesday" in told[0]["stop"]
    assert not held(api) and wait_until(lambda: whole(api), 150, every=0.5)


def test_whoever_may_write_its_configmap_stops_a_game_day(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = box.api()
    assert wait_until(lambda: whole(api), 150, every=0.5)
    with chat() as told:
        day = in_pods(box, tmp_path, "wednesday", monkeypatch)
        oncall = day.stopper()
        assert oncall.request("GET", f"/api/v1/namespaces/{SEARCH}/pods")[0] == 403
        assert wait_until(lambda: bool(held(api)), 480, every=0.2), day.said()
        status, answer = oncall.request("PATCH", day.map, {"data": {"stop": "the shop is slow"}})
        assert status == 200, answer
        assert wait_until(lambda: not held(api), 30, every=0.2), "it is undone at once"
        assert wait_until(day.over, 240, every=1.0), day.said()
    assert day.exit_code() == Exit.ABORTED, day.said()
    (stopped,) = [line for line in day.lines() if line["kind"] == "stop"]
    assert stopped["by"] == "stop map" and "the shop is slow" in stopped["why"]
    assert told[-1]["event"] == "abort"
    assert wait_until(lambda: whole(api), 150, every=0.5)
