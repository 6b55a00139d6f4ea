"""Game days on the staging box, from an office, by the very command lines that a scheduler has: real signatures, a real
Prometheus and Alertmanager, announcements that arrive, faults on hosts by ssh and on a zone by REST."""

from __future__ import annotations

import json
import random
import re
import shlex
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from box.office import give
from boxkit import Boxed, Program
from clusterkit import cli

from chaos.faults.ledger import standing
from chaos.gamedays import record
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.processes import wait_until

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus is installed"),
    pytest.mark.skipif(shutil.which("prometheus-alertmanager") is None, reason="no Alertmanager is installed"),
]
HEAD = """apiVersion: opensearch-chaos/v1
name: NAME
topology: 3az
load:
  read:  {rate: 10/s, good: ok within 5s}
  write: {rate: 10/s, good: ok within 5s}
  documents: 50
phases:
  healthy: {for: 5s}
"""
TAIL = """expect:
  - {acknowledged.lost: 0}
guards: {max: 8m}
"""
BACK = "until: {green: true, stable: 2s, within: 4m}"
EXPERIMENTS = {
    "node-dead": "  dead: {for: 20s, inject: {node.kill: {target: node c-data}}}\n"
    + f"  back: {{undo: all, {BACK}}}\n",
    "zone-out": "  out:  {for: 10s, do: {weights: {a: 1, b: 1, c: 0}, decommission: {zone: c, no_delay: true}}}\n"
    f"  back: {{do: {{recommission: {{zone: c}}}}, {BACK}}}\n",
    "zone-dark": "  dark: {for: 30s, inject: {zone.isolation: {zone: c}}}\n" + f"  back: {{undo: all, {BACK}}}\n",
}
CHAT = "http://127.0.0.1:9099/"
_AHEAD = (6 - datetime.now(UTC).hour + 12) % 24 - 12
MORNING = f"Etc/GMT{-_AHEAD:+d}"
"""A zone in which it is between six and seven in the morning (POSIX: west is positive). In a fixed one a day is refused
in the last hour before midnight, because it would not be over in time."""
DAY: dict[str, Any] = {
    "apiVersion": "opensearch-chaos/v1",
    "kind": "gameday",
    "name": "staging",
    "owner": "team-search <search@example.com>",
    "hypothesis": "The shop notices nothing when a node, and then a zone, is gone.",
    "target": "TARGET",
    "experiments": [
        {"experiment": "node-dead.yaml", "rung": "node", "on_weakness": "go on"},
        {"experiment": "zone-out.yaml", "rung": "zone", "on_weakness": "go on"},
        {"experiment": "zone-dark.yaml", "rung": "zone", "on_weakness": "go on"},
    ],
    "window": {
        "zone": MORNING,
        "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
        "from": "00:00",
        "to": "23:59",
    },
    "freezes": [{"yaml": "freezes.yaml"}],
    "approval": {"allowed_signers": "allowed_signers"},
    "consent": {"allowed_signers": "operators"},
    "ladder": {"waived": "the box is made for this test, and has no past"},
    "preflight": {"stable": "2s", "within": "5m", "headroom": ["storage"]},
    "guards": {
        "shop": {
            "counts": "outcome",
            "prometheus": {
                "url": "http://127.0.0.1:9090",
                "query": "1 - min(avg_over_time(shop_search_ok{zone=~\"a|b\"}[30s]))",
                "fresh": "time() - min(timestamp(shop_search_ok{zone=~\"a|b\"}))",
            },
            "above": "80%",
            "every": "5s",
            "times": 3,
        }
    },
    "alerts": {
        "prometheus": "http://127.0.0.1:9090",
        "every": "2s",
        "expect": [
            {
                "name": "NodesMissing",
                "experiment": "node-dead",
                "phase": "dead",
                "fires_within": "1m",
                "resolves_within": "5m",
            }
        ],
    },
    "announce": [{"webhook": CHAT}],
    "bounds": {"day": "60m", "abort": "2m"},
    "stop": {"file": "STOP"},
    "textfile": "TEXTFILE",
}  # fmt: skip
PROMETHEUS = """global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
alerting: {alertmanagers: [{static_configs: [{targets: ['127.0.0.1:9093']}]}]}
scrape_configs: [{job_name: shop, static_configs: [{targets: ['127.0.0.1:9099']}]}]
"""
RULES = """groups:
  - name: shop
    rules:
      - {alert: NodesMissing, expr: shop_nodes < 6, labels: {severity: page}}
"""
ALERTMANAGER = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


SUPPORT = Path(__file__).parents[1] / "support"


@contextmanager
def hanging(boxed: Boxed) -> Iterator[None]:
    """Somebody in the office who takes connections, and never answers."""
    serves = (
        "import socket, time; s = socket.create_server(('127.0.0.1', 9098)); print(1, flush=True); time.sleep(3600)"
    )
    made = boxed.inside("python", "-c", serves)
    made.started.remove(made)
    try:
        assert made.process.stdout is not None and made.process.stdout.readline()
        yield
    finally:
        made.process.kill()
        made.process.wait()


class Team:
    """An office with a game day's files, two people who may approve, a Prometheus, an Alertmanager and a chat.

    ``name``: of its game day."""

    def __init__(self, boxed: Boxed, office: int = 1, name: str = "staging") -> None:
        self.boxed, self.office, self.name, self.home = boxed, office, name, boxed.box.home(office)
        self.folder = self.home / "experiments" / "gamedays"
        self.file = Path(f"experiments/gamedays/{name}.yaml")
        self.chat = self.home / "chat.jsonl"
        self.stop = self.home / "run" / "stop"
        self.programs: list[Program] = []

    def furnish(self, **changes: Any) -> None:
        ours = {"name": self.name, "stop": {"file": str(self.stop)}, "textfile": str(self.home / "run" / "day.prom")}
        day = {**DAY, **ours, **changes, "target": f"../../{self.boxed.target}"}
        self.does("mkdir", "-p", "experiments/gamedays", "run", "monitoring")  # they are the office's own
        # which of these were used is forgotten with each test
        self.does("rm", "-rf", "experiments/gamedays/approvals")
        for name, phases in EXPERIMENTS.items():
            give(self.folder / f"{name}.yaml", HEAD.replace("NAME", name) + phases + TAIL, self.office)
        give(
            self.folder / "freezes.yaml",
            "freezes: [{from: 2099-12-18, to: 2099-12-31, why: end of year}]\n",
            self.office,
        )
        text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in day.items() if value is not None)
        give(self.home / self.file, text, self.office)
        for name, text in (("prometheus.yaml", PROMETHEUS), ("rules.yaml", RULES), ("am.yaml", ALERTMANAGER)):
            give(self.home / "monitoring" / name, text, self.office)
        signers = ""
        for who in ("ann", "bob"):
            self.does("sh", "-c", f"test -f {who}.key || ssh-keygen -q -t ed25519 -N '' -C {who} -f {who}.key")
            signers += f"{who}@example.com {' '.join((self.home / f'{who}.key.pub').read_text().split()[:2])}\n"
        give(self.folder / "allowed_signers", signers, self.office)
        home = self.boxed.box.home(1)  # the operators' key is one, in whichever office a day is run
        if self.office == 1:
            self.does("sh", "-c", "test -f ops.key || ssh-keygen -q -t ed25519 -N '' -C ops -f ops.key")
        operators = f"ops@example.com {' '.join((home / 'ops.key.pub').read_text().split()[:2])}\n"
        give(self.folder / "operators", operators, self.office)

    def does(self, *command: str | Path, timeout: float = 120) -> str:
        code, output = self.boxed.inside(*command, office=self.office).end(timeout)
        assert code == 0, output
        return output

    def chaos(self, *arguments: str | Path, timeout: float = 300) -> tuple[int, str]:
        return self.boxed.chaos("gameday", *arguments, office=self.office, timeout=timeout)

    def run(self, *command: str | Path) -> Program:
        """A program that outlives a test; no Ctrl-C ends it."""
        made = self.boxed.inside(*command, office=self.office)
        made.started.remove(made)
        self.programs.append(made)
        return made

    def serve(self) -> None:
        """The chat, and the probes; once."""
        if not self.programs:
            self.run("python", SUPPORT / "shopwatch.py", self.boxed.target, "chat.jsonl")
        assert wait_until(self.chat.exists, 60, every=0.2)

    def begin(self) -> None:
        """Prometheus, Alertmanager and the chat, until each answers."""
        self.serve()
        for command in (
            ("prometheus-alertmanager", "--config.file=monitoring/am.yaml", "--storage.path=monitoring/am",
             "--web.listen-address=127.0.0.1:9093", "--cluster.listen-address="),
            ("prometheus", "--config.file=monitoring/prometheus.yaml", "--storage.tsdb.path=monitoring/data",
             "--web.listen-address=127.0.0.1:9090"),
        ):  # fmt: skip
            self.run(*command)
        asks = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9090/api/v1/query?query=shop_nodes').read().decode())"

        def scraped() -> bool:
            code, output = self.boxed.inside("python", "-c", asks, office=self.office).end(60)
            return code == 0 and '"6"' in output

        if not wait_until(scraped, 120, every=1.0):
            self.end()
            said = [each.process.stdout.read()[-2000:] for each in self.programs if each.process.stdout is not None]
            raise AssertionError("\n".join(said))

    def approved(self) -> None:
        for who in ("ann", "bob"):
            code, output = self.chaos("approve", self.file, "--key", f"{who}.key", "--yes")
            assert code == 0, output
        assert "it is approved" in output, output

    def told(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.chat.read_text().splitlines()] if self.chat.exists() else []

    def days(self) -> list[Path]:
        return sorted((self.home / "gamedays" / self.name).glob("*/record.jsonl"))

    def lines(self) -> list[dict[str, Any]]:
        return record.read(self.days()[-1])

    def end(self) -> None:
        for each in self.programs:
            each.process.terminate()
            each.process.wait(60)


@pytest.fixture(scope="module")
def team(boxed: Boxed) -> Iterator[Team]:
    made = Team(boxed)
    made.furnish()
    yield made
    made.end()


@pytest.fixture
def consent(boxed: Boxed, team: Team) -> Iterator[None]:
    """Of the cluster's operators, for this test, by a key that is in no home of whoever runs days."""
    with boxed.owned() as lab:
        administer(lab, "POST", "/_cluster/reroute?retry_failed=true&metric=none")
        assert await_green(lab, 300)[0]
        asked = ("--key", "ops.key", "--until", "2099-01-01", "--by", "team-platform", "--for", "second", "--yes")
        code, output = team.chaos("consent", team.file, *asked)
        assert code == 0, output
        assert await_green(lab, 120)[0]
    yield
    boxed.chaos("recover", "--on", boxed.target)
    with boxed.owned() as lab:
        administer(lab, "DELETE", "/.opensearch-chaos")


def scheduled(team: Team, kind: str) -> tuple[str, ...]:
    """The command line of what ``gameday schedule`` prints."""
    where = ("--in", str(team.home), "--program", "opensearch-chaos")
    code, output = team.chaos("schedule", team.file, "--for", kind, *where)
    assert code == 0, output
    if kind == "systemd":
        found = re.search(r"^ExecStart=(.*)$", output, re.M)
        assert found is not None, output
        return tuple(shlex.split(found[1]))
    line = next(each for each in output.splitlines() if re.match(r"[0-9]+ [0-9]+ \* \* ", each))
    return "sh", "-c", line.split(maxsplit=6)[6]


def test_a_whole_day_fired_by_systemd_and_once_more_by_cron(
    boxed: Boxed, before: Path, team: Team, consent: None, tmp_path: Path
) -> None:
    team.begin()
    code, output = team.chaos("validate", team.file)
    assert code == 0 and "validate: OK" in output, output
    team.approved()
    began = time.monotonic()
    code, output = boxed.inside(*scheduled(team, "systemd")).end(3000)
    print(output)
    lines = team.lines()
    shutil.copytree(team.days()[-1].parent, tmp_path / "day")
    assert code in (0, 1, 3), (code, output, [line for line in lines if line["kind"] == "gate" and not line["ok"]])
    ended = [line for line in lines if line["kind"] == "experiment.end"]
    assert [line["name"] for line in ended] == list(EXPERIMENTS), output
    assert all(line["clean"] is True and line["outcome"] in ("pass", "inconclusive") for line in ended), ended
    (drill,) = [line for line in lines if line["kind"] == "drill"]
    assert drill["ok"] is True and drill["seconds"] <= 120, drill
    assert [line["people"] for line in lines if line["kind"] == "approval"] == [["ann@example.com", "bob@example.com"]]
    told = team.told()
    assert [each["event"] for each in told] == ["before", "begin", "end"], told
    assert all(f"touch {team.stop}" in json.dumps(each) for each in told[:2])
    states = [line["state"] for line in lines if line["kind"] == "alert" and line["name"] == "NodesMissing"]
    assert "firing" in states and "resolved" in states, states
    judged = {(line["name"], line["what"]): line["verdict"] for line in lines if line["kind"] == "expectation"}
    assert judged[("NodesMissing", "fires")] == "pass", judged
    code, output = team.chaos("history", team.file, "--verify")
    assert code == 0 and f"verified, head {record.head_of(team.days()[-1])}" in output, output
    assert (team.days()[-1].parent / "gameday.html").is_file()
    print(f"the day took {time.monotonic() - began:.0f} s; the drill {drill['seconds']:.1f} s")

    code, output = boxed.inside(*scheduled(team, "cron")).end(600)
    assert code == 0 and "already held" in output, output
    assert len(team.told()) == 3, "nobody is told of a day twice"
    code, output = team.chaos("status", team.file)
    assert code == 0 and "lock: none" in output, output
    code, output = team.chaos("forget", team.file)
    assert code == 0, output


def test_the_ladder_is_a_lab_then_a_node_then_a_zone(
    boxed: Boxed, before: Path, team: Team, consent: None, tmp_path: Path
) -> None:
    """Of exactly these experiments: a lab of this machine, a node of the box, and a zone that no lab has seen."""
    team.serve()
    ladder = {"labs": "../../labs"}
    one_experiment(team, "node-dead", ladder=ladder)
    code, output = team.chaos("run", team.file)
    assert code == 2 and "lab run of node-dead" in output and "run it in a lab first" in output, output
    assert not [line for line in team.lines() if line["kind"] == "experiment.begin"]

    same = tmp_path / "elsewhere" / "node-dead.yaml"
    same.parent.mkdir()
    shutil.copy(team.folder / "node-dead.yaml", same)
    code, output = cli("run", same, "--out", tmp_path / "labs", timeout=600)
    assert code == 0, output
    (ran,) = (tmp_path / "labs").iterdir()
    for name in ("plan.json", "findings.json"):
        give(team.home / "labs" / ran.name / name, (ran / name).read_text(), 1)

    code, output = team.chaos("run", team.file, timeout=900)
    assert code in (0, 3), output  # the box is busy: it may be too slow to tell
    passed = [line for line in team.lines() if line["kind"] == "gate" and line["name"] == "lab run of node-dead"]
    assert passed and all(line["ok"] and ran.name in line["says"] for line in passed), passed
    (ended,) = [line for line in team.lines() if line["kind"] == "experiment.end"]
    assert ended["clean"] is True
    code, output = team.chaos("forget", team.file)  # else this day is held already
    assert code == 0, output

    one_experiment(team, "zone-out", ladder=ladder)
    code, output = team.chaos("run", team.file)
    assert code == 2 and "has no lab run of exactly this experiment" in " ".join(output.split()), output
    code, output = team.chaos("forget", team.file)
    assert code == 0, output


# ---- stopping it ----------------------------------------------------------------------------------------

WAYS = (
    "stop file",
    "SIGTERM",
    "gameday stop from another office",
    "users suffer",
    "out of reach, stop file",
    "red, stop file",
    "stop file, nobody takes the announcement",
    "stop file, and SIGKILL while it undoes",
)
NAMES = tuple(EXPERIMENTS)
ABORT_SECONDS = 120.0
OUT_SECONDS = 20.0
"""For which a cluster is out of reach from the stop on."""
LONGEST_SECONDS = 75.0
"""From the begin of an experiment to the stop: most of what is before its end on a calm machine. One that is over by
then was not stopped, and shows nothing."""


def one_experiment(team: Team, name: str, **changes: Any) -> None:
    rung = "node" if name == "node-dead" else "zone"
    guard = {"counts": "blocking", "program": {"run": ["test", "!", "-e", str(team.home / "run" / "suffer")]}}
    shop = {"counts": "outcome", "program": {"run": ["true"]}}
    team.furnish(**{
        "experiments": [{"experiment": f"{name}.yaml", "rung": rung}],
        "approval": {"allowed_signers": "allowed_signers", "people": 1},
        "guards": {"shop": shop, "others": {**guard, "every": "1s", "timeout": "1s", "times": 2}},
        "alerts": None,
        "drill": False,
        **changes,
    })  # fmt: skip
    code, output = team.chaos("approve", team.file, "--key", "ann.key", "--yes")
    assert code == 0 and "it is approved" in output, output


def stopped(boxed: Boxed, team: Team, running: Program, way: str) -> None:
    if way.startswith("out of reach"):
        assert boxed.does("cut") == (0, "")
        threading.Timer(OUT_SECONDS, boxed.does, ("mend",)).start()
    if way.startswith("red"):
        with boxed.owned() as lab:
            where = {"index.routing.allocation.require.nowhere": "yes", "index.number_of_replicas": 0}
            assert administer(lab, "PUT", "/red?wait_for_active_shards=0", {"settings": where})[0] == 200
    if "stop file" in way:
        give(team.stop, "", 1)
    elif way == "SIGTERM":
        running.signal(signal.SIGTERM)
    elif way.startswith("gameday stop"):
        files = [team.file, *sorted(each.relative_to(team.home) for each in team.folder.rglob("*") if each.is_file())]
        for file in files:
            give(boxed.box.home(2) / file, (team.home / file).read_text(), 2)
        given = ("gameday", "stop", team.file, "--reason", "an incident elsewhere")
        code, output = boxed.chaos(*given, office=2)
        assert code == 0, output
    elif way == "users suffer":
        give(team.home / "run" / "suffer", "", 1)


def in_effect(day: Path) -> str:
    """What of a day's experiment is written down to be made, and not yet taken back."""
    stands = {each.move.operation for ledger in day.rglob("ledger.jsonl") for each in standing(ledger)}
    return ", ".join(sorted(each for each in stands if not each.startswith("note"))) or "nothing made"


@pytest.mark.parametrize("seed", range(20))
def test_stopped_at_a_random_moment_all_is_undone(
    boxed: Boxed, before: Path, team: Team, consent: None, seed: int, tmp_path: Path
) -> None:
    drawn = random.Random(seed)
    name, way = NAMES[seed % len(NAMES)], WAYS[seed % len(WAYS)]
    hook = "http://127.0.0.1:9098/" if "nobody takes" in way else None
    changes = {"announce": [{"webhook": CHAT, "on": ["before"]}, {"webhook": hook, "on": ["abort"]}]} if hook else {}
    with hanging(boxed) if hook else nullcontext():
        team.serve()
        one_experiment(team, name, **changes)
        had = len(team.days())
        running = boxed.inside("opensearch-chaos", "gameday", "run", team.file)

        def begun() -> bool:
            assert running.process.poll() is None, running.end(10)
            return len(team.days()) > had and any(line["kind"] == "experiment.begin" for line in team.lines())

        assert wait_until(begun, 300, every=0.5)
        time.sleep(drawn.uniform(0.0, LONGEST_SECONDS))
        asked = time.monotonic()
        alive = running.process.poll() is None
        hit = in_effect(team.days()[-1].parent)
        try:
            stopped(boxed, team, running, way)
            if "SIGKILL" in way:
                time.sleep(drawn.uniform(0.2, 2.0))
                running.process.kill()
            code, output = running.end(900)
        finally:
            assert boxed.does("mend") == (0, "")
            for file in (team.stop, team.home / "run" / "suffer"):
                file.unlink(missing_ok=True)
            with boxed.owned() as lab:
                administer(lab, "DELETE", "/red")
    took = time.monotonic() - asked
    shutil.copytree(team.days()[-1].parent, tmp_path / "day")
    lines = team.lines()
    undone = [line for line in lines if line["kind"] == "undone"]
    if "SIGKILL" in way:
        assert code == -signal.SIGKILL
        code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
        assert code == 0, output
        took = time.monotonic() - asked  # by then at the latest: its keeper may have done it before
        code, output = team.chaos("run", team.file, timeout=900)
        assert code == 7 and "never ended" in output, output
    elif way.startswith("out of reach") and code == 6:  # it gave up before the way was mended, and says so
        code, output = boxed.chaos("recover", "--on", boxed.target, office=2)
        assert code == 0, output
    elif code in (0, 3):  # it was over before the stop was seen
        assert alive, "it was over before it was to be stopped"
        assert not undone
    else:
        assert code == 4, output
        for line in undone:
            assert line["all"] is True and line["seconds"] <= ABORT_SECONDS, line
        assert any(line["kind"] == "hold" for line in lines)
    seconds = undone[0]["seconds"] if undone else took
    print(f"exit {code}, ended after {took:.1f} s")
    print(f"seed {seed}, {way}, {hit.replace(', ', ' and ')} of {name}: nothing of it active after {seconds:.1f} s")
    assert record.verify(team.days()[-1]) == []
    code, output = team.chaos("resume", team.file, "--reason", "a test did it")
    assert code in (0, 2), output
    code, output = team.chaos("forget", team.file)
    assert code == 0, output
