"""The Kubernetes box's pure parts: addresses, what is mounted where, commands, and objects as the chart writes them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from kubebox import api, cli, groups, images, making, manifests, network, parts, plan
from kubebox.manifests import ORDERED, PARALLEL, Options
from kubebox.plan import MACHINES, MACHINES_OF_ZONES, SERVICES, Layout

from chaos.base.errors import InvalidInput, MissingPrerequisite

LAYOUT = Layout("t", Path("/var/lib/box-t"))
PROGRAMS = {
    name: Path("/cache/kubernetes") / name
    for name in ("kubernetes", "coredns", "pods", "etcd", "containerd", "containerd-shim-runc-v2", "runc", "ctr")
}
COMMAND = ("/jdk/bin/java", "-cp", "/lib/x.jar", "Main")


def objects(preload: str | None = None, options: Options = making.DEFAULT) -> list[manifests.Object]:
    return manifests.opensearch("3.8.0", manifests.Started(COMMAND, "image:3.8.0", preload, options))


def of_kind(kind: str, options: Options = making.DEFAULT) -> list[manifests.Object]:
    return [each for each in objects(options=options) if each["kind"] == kind]


def container(item: manifests.Object) -> manifests.Object:
    found = item["spec"]["template"]["spec"]["containers"]
    assert len(found) == 1
    return dict(found[0])


def test_kubelets_ask_for_a_path_where_one_is_named_and_else_only_for_the_port() -> None:
    for path in (None, "/_cluster/health?local=true"):
        sets = of_kind("StatefulSet", Options(liveness=path))
        asked = [container(each).get("livenessProbe") for each in sets]
        assert len(sets) == 2
        assert asked == [None, None] if path is None else all(each["httpGet"]["path"] == path for each in asked if each)


def test_a_node_counts_as_started_by_its_port_or_by_a_path_that_is_named_and_stays_ready_by_its_port() -> None:
    for path in (None, "/_cluster/health?wait_for_status=green"):
        sets = of_kind("StatefulSet", Options(startup=path))
        assert len(sets) == 2
        for each in map(container, sets):
            probe = each["startupProbe"]
            asked = probe.get("tcpSocket"), probe.get("httpGet")
            assert asked == (({"port": 9200}, None) if path is None else (None, {"path": path, "port": 9200}))
            assert probe["failureThreshold"] * probe["periodSeconds"] == 300
            assert "tcpSocket" in each["readinessProbe"] and "livenessProbe" not in each


def test_pods_of_data_nodes_are_made_as_asked_for_and_those_of_managers_all_at_once() -> None:
    for options in (Options(), Options(management=ORDERED), Options(management=ORDERED, zonal=True)):
        managers, *data = (each["spec"]["podManagementPolicy"] for each in of_kind("StatefulSet", options))
        assert managers == PARALLEL and set(data) == {options.management}


def test_zones_have_a_set_of_data_nodes_each_where_that_is_asked_for() -> None:
    options = Options(zonal=True)
    managers, *data = of_kind("StatefulSet", options)
    assert managers["spec"]["replicas"] == 3 and "nodeSelector" not in managers["spec"]["template"]["spec"]
    assert [each["metadata"]["name"] for each in data] == [f"opensearch-cluster-data-{zone}" for zone in plan.ZONES]
    selectors = [each["spec"]["selector"]["matchLabels"] for each in data]
    assert len({json.dumps(each) for each in selectors}) == 3, "each set adopts its own pods alone"
    for item, zone, selector in zip(data, plan.ZONES, selectors, strict=True):
        template = item["spec"]["template"]
        assert item["spec"]["replicas"] == 2 and template["spec"]["nodeSelector"] == {plan.ZONE_LABEL: zone}
        assert selector.items() <= template["metadata"]["labels"].items()
    assert of_kind("Service", options) == of_kind("Service"), "they lead to the nodes of all zones"
    budget = of_kind("PodDisruptionBudget", options)[1]["spec"]
    assert budget["maxUnavailable"] == 2 and budget["selector"]["matchLabels"] == manifests.DATA.selector


def test_a_command_brings_a_box_up_with_what_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Options] = []
    monkeypatch.setattr(making.Box, "up", lambda box, reporter, *, options, **rates: asked.append(options))
    for words in ([], ["--management", ORDERED, "--startup", "/x"], ["--zonal", "--liveness", "/y"]):
        assert cli.main(["up", *words]) == 0
    assert asked == [Options(), Options(startup="/x", management=ORDERED), Options(liveness="/y", zonal=True)]
    with pytest.raises(SystemExit):
        cli.main(["up", "--management", "Random"])


def test_networks_of_a_box_do_not_overlap() -> None:
    networks = [MACHINES, SERVICES, *(machine.pods for machine in MACHINES_OF_ZONES)]
    assert all(each.subnet_of(plan.NETWORK) for each in networks)
    assert not [1 for n, one in enumerate(networks) for other in networks[n + 1 :] if one.overlaps(other)]
    addresses = [plan.CONTROL, plan.HOST, *(machine.address for machine in MACHINES_OF_ZONES)]
    assert len(set(addresses)) == 5 and all(each in MACHINES for each in addresses)


@pytest.mark.parametrize(
    ("route", "taken"),
    [
        ("0.0.0.0/0", False),
        ("198.18.2.0/24", True),
        ("198.16.0.0/12", True),
        ("198.19.255.255/32", True),
        ("198.17.0.0/16", False),
        ("10.0.0.0/8", False),
    ],
)
def test_routes_into_the_boxs_addresses_are_found(route: str, taken: bool) -> None:
    assert plan.overlapping([route]) == ([str(IPv4Network(route))] if taken else [])


def test_what_must_stay_visible_is_mounted_before_what_hides_it() -> None:
    state = LAYOUT.of("a")
    found = plan.mounts(state, [LAYOUT.folder, Path("/var/cache/x"), Path("/run/cache")])
    assert found[:2] == [
        ("/var/lib/box-t", "/var/lib/box-t/a/own/var-lib/box-t"),
        ("/run/cache", "/var/lib/box-t/a/own/run/cache"),
    ]
    assert [target for _, target in found[-3:]] == list(plan.HIDDEN)
    assert {target for _, target in found[2:-3]} == {f"/proc/sys/{name}" for name in plan.KERNEL}
    assert all(source.startswith(f"{state}/") for source, _ in found[2:])


def test_all_that_a_machine_writes_is_below_the_boxs_folder() -> None:
    for machine in MACHINES_OF_ZONES:
        state = str(LAYOUT.of(machine.zone))
        written = [plan.kubelet(LAYOUT, machine)["volumePluginDir"]]
        written += [
            line.split('"')[1]
            for line in plan.containerd(LAYOUT, machine, Path("/cni")).splitlines()
            if line.strip().startswith(("root =", "state =", "address =", "conf_dir =", "path ="))
        ]
        assert len(written) == 6 and all(each.startswith(f"{state}/") for each in written)


def test_programs_that_speak_to_the_api_server_wait_until_it_answers() -> None:
    waits = {each["Name"]: each["After"] for each in plan.control(LAYOUT, PROGRAMS)["Programs"]}
    assert [name for name, after in waits.items() if not after] == ["etcd", "apiserver"]
    assert {after for after in waits.values() if after} == {str(LAYOUT.ready)}


def test_a_kubelet_waits_for_the_image_without_which_no_pod_starts() -> None:
    worker = plan.worker(LAYOUT, MACHINES_OF_ZONES[1], PROGRAMS, [])
    containerd, kubelet = worker["Programs"]
    assert containerd["After"] == "" and kubelet["After"] == "/var/lib/box-t/b/images-ready"
    assert "--node-labels=topology.kubernetes.io/zone=b" in kubelet["Command"]
    assert "PATH=/cache/kubernetes:/usr/sbin:/usr/bin:/sbin:/bin" in containerd["Command"]


def test_a_kubeconfig_gives_the_authority_and_never_skips_its_check() -> None:
    written = json.dumps(plan.kubeconfig(b"PEM", "secret"))
    assert "UEVN" in written and "secret" in written and "insecure" not in written


def test_managers_are_dedicated_and_named_to_begin_with() -> None:
    managers, data = (dict(manifests.settings(group)) for group in manifests.GROUPS)
    assert managers["node.roles"] == "cluster_manager" and "cluster_manager" not in data["node.roles"]
    first = managers.pop("cluster.initial_cluster_manager_nodes")
    assert first == "opensearch-cluster-master-0,opensearch-cluster-master-1,opensearch-cluster-master-2"
    assert "cluster.initial_cluster_manager_nodes" not in data


def test_each_pod_claims_one_of_the_volumes_that_machines_have() -> None:
    folders = {
        name: (each.name, str(folder))
        for each in MACHINES_OF_ZONES
        for name, folder in LAYOUT.volumes(each.zone).items()
    }
    kind, *volumes = manifests.volumes(folders)
    assert len(volumes) == sum(group.replicas for group in Options(zonal=True).groups)
    assert len({each["spec"]["local"]["path"] for each in volumes}) == len(volumes)
    assert {each["spec"]["storageClassName"] for each in volumes} == {kind["metadata"]["name"]}
    for item in of_kind("StatefulSet"):
        (claim,) = item["spec"]["volumeClaimTemplates"]
        assert [each["name"] for each in container(item)["volumeMounts"]] == [claim["metadata"]["name"]]
        assert claim["spec"]["storageClassName"] == kind["metadata"]["name"]


def test_labels_are_those_of_the_chart() -> None:
    for item in objects():
        labels = item["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "opensearch" and labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/instance"] in ("managers", "data")
        assert labels["app.kubernetes.io/component"] in ("opensearch-cluster-master", "opensearch-cluster-data")
        assert labels["app.kubernetes.io/version"] == "3.8.0" and labels["helm.sh/chart"].startswith("opensearch-")


def test_each_budget_selects_the_pods_of_its_own_group_alone() -> None:
    sets = of_kind("StatefulSet")
    for budget in of_kind("PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1
        wanted = budget["spec"]["selector"]["matchLabels"].items()
        selected = [each for each in sets if wanted <= each["spec"]["template"]["metadata"]["labels"].items()]
        assert [each["metadata"]["name"] for each in selected] == [budget["metadata"]["name"].removesuffix("-pdb")]


def test_a_set_is_governed_by_a_service_that_names_pods_before_they_are_ready() -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("Service")}
    for item in of_kind("StatefulSet"):
        headless = services[item["spec"]["serviceName"]]
        assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
        seeds = next(e["value"] for e in container(item)["env"] if e["name"] == "discovery.seed_hosts")
        assert seeds in services


def test_every_setting_in_the_environment_is_given_to_the_node() -> None:
    for item in of_kind("StatefulSet"):
        made = container(item)
        assert made["args"] == [f"-E{each['name']}=$({each['name']})" for each in made["env"]]
        assert made["command"][0] == COMMAND[0] and made["command"][-3:] == list(COMMAND[1:])
        assert "-XX:+UseSerialGC" not in made["command"]  # a bootstrap check refuses it


def test_a_library_is_loaded_first_only_where_the_machine_needs_it() -> None:
    for preload in (None, "/box/nofile.so"):
        sets = [each for each in objects(preload) if each["kind"] == "StatefulSet"]
        found = [e.get("value") for item in sets for e in container(item)["env"] if e["name"] == "LD_PRELOAD"]
        assert found == ([preload] * 2 if preload else [])


def test_neighbours_and_the_application_have_namespaces_of_their_own() -> None:
    spaces = {each["metadata"]["namespace"] for each in (*manifests.shop(1, 1), *manifests.neighbours())}
    assert spaces == {manifests.SHOP, manifests.OTHERS}
    assert {each["metadata"]["namespace"] for each in objects()} == {manifests.SEARCH}
    assert f".{manifests.SEARCH}.svc." in json.dumps(manifests.shop(1, 1))
    assert f".{manifests.SEARCH}.svc." not in json.dumps(manifests.neighbours())


def test_every_kind_of_object_has_its_place_in_the_api() -> None:
    made = [*objects(), *manifests.shop(1, 1), *manifests.neighbours(), manifests.namespace("x")]
    made += manifests.volumes({"volume-a-0": ("node-a", "/a")})
    assert {each["kind"] for each in made} == set(api.PLACES)
    assert all(api.PLACES[each["kind"]][0].endswith(each["apiVersion"]) for each in made)


@pytest.mark.parametrize(
    ("kind", "status", "done"),
    [
        ("StatefulSet", {"readyReplicas": 3}, True),
        ("StatefulSet", {"readyReplicas": 2}, False),
        ("StatefulSet", {}, False),
        ("DaemonSet", {"desiredNumberScheduled": 3, "numberReady": 3}, True),
        ("DaemonSet", {"desiredNumberScheduled": 3, "numberReady": 2}, False),
        ("DaemonSet", {}, False),  # nothing is wanted yet: that is not ready
    ],
)
def test_a_controller_is_rolled_out_when_all_its_pods_are_ready(kind: str, status: dict[str, int], done: bool) -> None:
    assert api.rolled_out({"kind": kind, "spec": {"replicas": 3}, "status": status}) is done


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_by_its_own_condition(status: str, ready: bool) -> None:
    conditions = [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": status}]
    assert api.is_ready({"status": {"conditions": conditions}}) is ready
    assert not api.is_ready({})


def test_hierarchies_of_both_versions_are_found() -> None:
    mounts = ["cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0", "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0"]
    text = "\n".join([*mounts, "proc /proc proc rw 0 0"])
    found = {Path("/sys/fs/cgroup/cpu"): "cgroup", Path("/sys/fs/cgroup/unified"): "cgroup2"}
    assert groups.hierarchies(text) == found


# ---- parts -----------------------------------------------------------------------------------------------------------


def test_an_image_holds_the_layer_that_its_configuration_names(tmp_path: Path) -> None:
    layer, image = tmp_path / "layer.tar", tmp_path / "image.tar"
    with tarfile.open(layer, "w") as archive:
        entry = tarfile.TarInfo("pods")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"body"))
    images.save(layer, image, "docker.io/x/pods:1", "x86_64", ["/pods"], "0", "/")
    with tarfile.open(image) as archive:
        files = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    (manifest,) = json.loads(files["manifest.json"])
    config = files[manifest["Config"]]
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    (inside,) = manifest["Layers"]
    digest = hashlib.sha256(files[inside]).hexdigest()
    assert json.loads(config)["rootfs"]["diff_ids"] == [f"sha256:{digest}"]
    assert json.loads(config)["architecture"] == "amd64" and manifest["RepoTags"] == ["docker.io/x/pods:1"]


def test_a_changed_source_is_another_part(tmp_path: Path) -> None:
    file = tmp_path / "main.go"
    file.write_text("one")
    first = parts.key([file])
    assert parts.key([file]) == first != parts.key([file], "flag")
    file.write_text("two")
    assert parts.key([file]) != first


@pytest.mark.parametrize(
    ("text", "version"), [("go1.26.8\n", (1, 26)), ("go1.25rc1", (1, 25)), ("devel +abc", None), ("", None)]
)
def test_gos_version_is_read(text: str, version: tuple[int, int] | None) -> None:
    assert parts.go_version(text) == version


def test_an_installed_package_counts_only_when_all_its_programs_are_there(tmp_path: Path) -> None:
    wanted = ["usr/bin/surely-not-here-one", "usr/bin/surely-not-here-two"]
    for done, name in enumerate(wanted):
        assert parts.installed(wanted, tmp_path) is None, done
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert parts.installed(wanted, tmp_path) == {Path(name).name: tmp_path / name for name in wanted}


def test_what_cannot_be_had_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {"etcd-server", "runc"}
    there = {"program": Path("/program")}
    monkeypatch.setattr(parts, "_unpacked", lambda package, says: None if package["name"] in lacking else there)
    monkeypatch.setattr(parts, "installed", lambda programs: None)
    with pytest.raises(MissingPrerequisite, match=r"needs etcd-server, runc: .* apt-get install .* etcd-server runc$"):
        parts.packages(lambda line: None)


def test_locked_packages_have_all_that_a_box_starts() -> None:
    found = [Path(program).name for package in parts.locked_packages() for program in package["programs"]]
    started = {"etcd", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "bridge", "host-local", "loopback"}
    assert {*found} == started and len(found) == len(started)
    assert all(len(package["sha256"]) == 64 for package in parts.locked_packages())


@pytest.mark.parametrize(
    ("name", "module"),
    [("kubernetes", f"k8s.io/kubernetes v{parts.KUBERNETES_VERSION}"), ("coredns", parts.COREDNS)],
)
def test_modules_are_locked_by_hash(name: str, module: str) -> None:
    folder = parts.SOURCES / name
    assert module in (folder / "go.mod").read_text()
    sums = (folder / "go.sum").read_text().splitlines()
    assert any(line.startswith(f"{module} h1:") for line in sums)
    assert any(line.startswith(f"{module}/go.mod h1:") for line in sums)


def test_the_programs_of_pods_need_no_module() -> None:
    assert "require" not in (parts.SOURCES / "pods" / "go.mod").read_text()


@pytest.mark.parametrize("name", ["", "a.b", "../x", "A", "a" * 21])
def test_a_box_has_a_plain_name(name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be called"):
        making.Box(name)


def test_no_boxs_namespaces_are_taken_for_anothers() -> None:
    one, other = making.Box("a").layout, making.Box("a-b").layout
    assert not [name for name in other.namespaces if name.startswith(one.prefix)]


# ---- what is this machine's ------------------------------------------------------------------------------------------


class Routes:
    """This machine's links: by name, with their aliases."""

    def __init__(self, **aliases: str) -> None:
        self.aliases = aliases

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def link_lookup(self, ifname: str) -> list[int]:
        return [list(self.aliases).index(ifname)] if ifname in self.aliases else []

    def get_links(self, index: int) -> list[Any]:
        alias = list(self.aliases.values())[index]
        return [SimpleNamespace(get_attr=lambda name: alias if name == "IFLA_IFALIAS" else None)]

    def link(self, command: str, **given: Any) -> None:
        if command == "add":
            self.aliases[given["ifname"]] = ""
        elif command == "set" and "ifalias" in given:
            self.aliases[list(self.aliases)[given["index"]]] = given["ifalias"]
        elif command == "del":
            self.aliases.pop(list(self.aliases)[given["index"]])

    def addr(self, *_: object, **__: object) -> None: ...

    route = addr


@pytest.mark.parametrize(("whose", "stays"), [(LAYOUT.prefix, False), ("kubebox.another.", True), ("", True)])
def test_this_machines_port_goes_with_the_box_that_it_is_of(
    monkeypatch: pytest.MonkeyPatch, whose: str, stays: bool
) -> None:
    here = Routes(**{plan.PORT: whose})
    removed: list[str] = []
    monkeypatch.setattr(network, "IPRoute", lambda: here)
    monkeypatch.setattr(network.network, "namespaces", lambda prefix: [f"{prefix}a"])
    monkeypatch.setattr(network.network, "remove", removed.append)
    network.remove(LAYOUT)
    assert (plan.PORT in here.aliases) is stays and removed == [f"{LAYOUT.prefix}a"]


def test_the_port_says_from_its_beginning_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Routes()
    monkeypatch.setattr(network, "IPRoute", lambda: here)
    monkeypatch.setattr(network.network, "netlink", lambda name: Routes(switch="", host=""))
    network._host(LAYOUT, "control")
    assert here.aliases == {plan.PORT: LAYOUT.prefix}


def test_a_root_of_control_groups_gives_away_in_the_end_what_it_gave_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root, layout, wrote = tmp_path / "cgroup", Layout("t", tmp_path / "box"), list[str]()
    for folder in (root, layout.folder):
        folder.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu memory\n")
    (root / "cgroup.subtree_control").write_text("memory\n")

    def write_text(path: Path, text: str) -> None:
        assert path == root / "cgroup.subtree_control"
        wrote.append(text)

    groups._note(layout, root)
    monkeypatch.setattr(Path, "write_text", write_text)
    groups._delegate(root)
    monkeypatch.setattr(groups, "hierarchies", lambda: {root: "cgroup2"})
    assert groups.remove(layout) == []
    assert wrote == ["+cpuset +cpu +memory", "-cpuset", "-cpu"]


def test_a_box_that_is_up_is_not_cleared_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    box, gone = making.Box("ci"), list[str]()
    monkeypatch.setattr(box, "lock", lambda: tmp_path / "lock")
    monkeypatch.setattr(box, "_away", lambda: gone.append("away") or [])
    monkeypatch.setattr(box, "is_up", lambda: True)
    with pytest.raises(InvalidInput, match="box 'ci' is up"):
        box.clear()
    monkeypatch.setattr(box, "is_up", lambda: False)
    assert box.clear() == [] and gone == ["away"]
