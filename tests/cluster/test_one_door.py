"""A cluster of which no node is reached by itself: everything goes through one address, behind which any node answers.

In one half of the tests that is a load balancer, in the other one a stand-in for a managed domain: what it is given it
passes on to a node of a real cluster, if it is signed as AWS wants it.
"""

from __future__ import annotations

import http.client
import itertools
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import sigv4
from cluster.test_on_existing import (
    CALLED,
    FOREVER,
    HELD,
    OVER,
    STANDBY,
    There,
    steps,
    taken_for_theirs,
)
from clusterkit import (
    await_event,
    cli,
    events,
    findings,
    in_effect,
    keepers_of,
    recovered_elsewhere,
    run_folder,
)

from chaos.base.netsock import Endpoint
from chaos.definitions.existing import load_existing
from chaos.opensearch.views import administer
from chaos.targets.existing import rights
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

KEY = sigv4.Key("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token")
REGION = "eu-west-1"


def by_one_door(there: There, url: str, **more: Any) -> There:
    """The same cluster, of whose nodes the file knows no address."""
    said = {key: json.loads(value) for key, _, value in (line.partition(": ") for line in there.text.splitlines())}
    for node in said["nodes"].values():
        del node["url"]
    said |= {"endpoints": [url], **more}
    there.text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items())
    there.write(FOREVER)
    return there


@contextmanager
def balanced(lab: LocalLab, folder: Path, called: dict[str, str]) -> Iterator[There]:
    with taken_for_theirs(lab, folder, called) as made:
        yield by_one_door(made, made.doors.door(*(lab.administration(node.name) for node in lab.topology.data_nodes)))


@pytest.fixture
def there(tiny: LocalLab, tmp_path: Path) -> Iterator[There]:
    with balanced(tiny, tmp_path, CALLED) as made:
        yield made


def let_in(policy: dict[str, Any], method: str, path: str) -> bool:
    """Whether a policy of IAM allows a request: a method is an action, and a path a resource, in which * is any text
    (https://docs.aws.amazon.com/opensearch-service/latest/developerguide/ac.html)."""
    action, resource = f"es:ESHttp{method.capitalize()}", f"arn:aws:es:{REGION}:ACCOUNT:domain/DOMAIN{path}"
    return any(
        action in statement["Action"]
        and any(re.fullmatch(".*".join(map(re.escape, each.split("*"))), resource) for each in statement["Resource"])
        for statement in policy["Statement"]
    )


def passed_on(
    verifier: sigv4.Verifier, policies: list[dict[str, Any]], nodes: list[Endpoint]
) -> type[BaseHTTPRequestHandler]:
    """``policies``: the last one holds."""
    turns = itertools.count()

    class Domain(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        refused: ClassVar[list[str]] = []

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.take
            raise AttributeError(name)

        def take(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            target = self.raw_requestline.split(b" ")[1]
            try:
                verifier.verify(sigv4.Request(self.command, target, tuple(self.headers.items()), body))
                if not let_in(policies[-1], self.command, target.partition(b"?")[0].decode("latin-1")):
                    raise sigv4.Refused("not authorized to perform this by the policy")
                status, kind, raw = self._asked(target.decode("latin-1"), body)
            except sigv4.Refused as error:
                self.refused.append(f"{self.command} {target!r}: {error}")
                status, kind, raw = 403, "application/json", json.dumps({"message": str(error)}).encode()
            except OSError as error:
                status, kind, raw = 502, "application/json", json.dumps({"message": str(error)}).encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        def _asked(self, target: str, body: bytes) -> tuple[int, str, bytes]:
            node = nodes[next(turns) % len(nodes)]
            made = http.client.HTTPConnection("node")
            made.sock = node.connect(10.0)
            try:
                kept = {key: self.headers[key] for key in ("content-type",) if key in self.headers}
                made.request(self.command, target, body, kept)
                answer = made.getresponse()
                return answer.status, answer.headers.get("content-type", "application/json"), answer.read()
            finally:
                made.close()

        def log_message(self, *_: Any) -> None:
            pass

    return Domain


@pytest.fixture
def domain(tiny: LocalLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[There, list[str]]]:
    """The cluster as a managed domain, and what was refused there."""
    for name, value in zip(
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        (KEY.id, KEY.secret, KEY.token),
        strict=True,
    ):
        monkeypatch.setenv(name, value or "")
    nodes = [tiny.administration(node.name) for node in tiny.topology.data_nodes]
    policies: list[dict[str, Any]] = []
    handler = passed_on(sigv4.Verifier((KEY,), REGION), policies, nodes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        with taken_for_theirs(tiny, tmp_path, CALLED) as made:
            url = f"http://127.0.0.1:{server.server_port}"
            by_one_door(made, url, access={"sigv4": {"region": REGION}}, prefix="chaos-days-")
            policies.append(rights.policy(load_existing(made.file).written))
            yield made, handler.refused  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def read_back(there: There) -> dict[str, Any]:
    return dict(json.loads((run_folder(there.out) / "history" / "readback.json").read_text()))


def assert_every_copy_was_read(there: There) -> None:
    found, topology = read_back(there), there.lab.topology
    assert found["complete"] is True, found["reason"]
    assert {each["node"] for each in found["copies"]} == {node.name for node in topology.data_nodes}
    assert len(found["copies"]) == topology.shards * (topology.replicas + 1)
    assert all(each["compared"] == each["docs"] for each in found["copies"])


@pytest.mark.full
def test_a_zone_goes_and_comes_back_and_every_copy_is_read(playground: LocalLab, tmp_path: Path):
    """On a cluster without weights of its own: those that are set go again before copies are read."""
    weights = {zone: 0 if zone == "c" else 1 for zone in playground.topology.zones}
    assert administer(
        playground, "DELETE", "/_cluster/routing/awareness/zone/weights", {"_version": version(playground)}
    )
    try:
        with balanced(playground, tmp_path, STANDBY) as there:
            file = there.experiment(
                "  healthy: {for: 3s}\n"
                "  out: {for: 4s, do: {weights: {a: 1, b: 2, c: 0}, decommission: {zone: c, no_delay: true}}}\n"
                "  back: {do: {recommission: {zone: c}}, until: {green: true, stable: 1s, within: 2m}}\n"
                + HELD % "3s"
                + OVER
            )
            file.write_text(file.read_text().replace("topology: 3az-standby", "topology: 3az"))
            code, output = cli("run", file, "--on", there.file, "--out", there.out)
            assert code in (0, 3), output  # a busy machine may send late
            found = findings(there.out)
            assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
            assert [each.split()[0] for each in steps(there.out)] == ["set", "decommission", "recommission"]
            gone = {event["node"] for event in events(there.out) if event["kind"] == "cluster.node_left"}
            assert gone == {"c-cm", "c-data"}
            assert [fault["proven"] for fault in found["faults"]] == [True]
            assert_every_copy_was_read(there)
            assert there.as_before()
    finally:
        body = {"weights": {zone: str(weight) for zone, weight in weights.items()}, "_version": version(playground)}
        assert administer(playground, "PUT", "/_cluster/routing/awareness/zone/weights", body)[0] == 200


def version(lab: LocalLab) -> int:
    return int(administer(lab, "GET", "/_cluster/routing/awareness/zone/weights")[1].get("_version", -1))


@pytest.mark.full
def test_while_zones_have_weights_no_copy_could_be_read_so_it_is_refused(playground: LocalLab, tmp_path: Path):
    with balanced(playground, tmp_path, STANDBY) as there:
        code, output = there.run("  healthy: {for: 2s}\n")
        assert code == 2 and "the cluster lets nobody name the node" in output, output
        assert there.as_before() and not there.out.exists()


@pytest.mark.full
@pytest.mark.parametrize("both", [False, True], ids=["runner", "runner and keeper"])
def test_what_a_dead_runner_did_is_undone_through_the_door(there: There, tmp_path: Path, both: bool):
    running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
    await_event(running, there.out, in_effect)
    assert not there.as_before()
    for keeper in keepers_of(running.process.pid) if both else ():
        keeper.kill()
    running.process.kill()
    running.process.wait()
    if both:
        code, output = recovered_elsewhere(there.file, tmp_path)
        assert code == 0, output
    assert wait_until(there.as_before, 60), there.theirs()
    assert cli("recover")[0] == 0


@pytest.mark.full
def test_what_only_a_node_itself_could_tell_is_refused(there: There):
    there.write(FOREVER)
    for phases, load, says in (
        (
            "  slow: {for: 2s, inject: {network.latency: {links: to zone c, delay: 1s}}}\n",
            "",
            "no node is reached by itself",
        ),
        ("  healthy: {for: 2s}\n", "  visibility: {rate: 1/s, within: 5s}\n", "visibility is looked for on each node"),
    ):
        file = there.experiment(phases)
        file.write_text(file.read_text().replace("  documents: 100\n", f"  documents: 100\n{load}"))
        code, output = cli("run", file, "--on", there.file, "--out", there.out)
        assert code == 2 and says in output and "Traceback" not in output, output
        assert there.as_before() and not there.out.exists()


@pytest.mark.full
def test_a_run_on_a_managed_domain_signs_everything_that_it_sends(domain: tuple[There, list[str]]):
    there, refused = domain
    assert cli("target", "check", there.file)[0] == 0
    code, output = there.run("  healthy: {for: 3s}\n" + HELD % "3s" + OVER)
    assert code in (0, 3), output
    found = findings(there.out)
    assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
    assert [fault["proven"] for fault in found["faults"]] == [True]
    assert_every_copy_was_read(there)
    assert refused == []
    assert read_back(there)["index"].startswith("chaos-days-")
    there.out = there.folder / "again"
    running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
    await_event(running, there.out, in_effect)
    assert not there.as_before()
    running.process.kill()
    running.process.wait()
    assert wait_until(there.as_before, 60), there.theirs()
    assert cli("recover")[0] == 0
    assert refused == []
