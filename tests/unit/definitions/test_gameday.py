"""A game day's file: what is taken, and each mistake in one line with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from daykit import DAY, a_day, written

from chaos.base.errors import InvalidInput
from chaos.definitions.gameday import load_gameday

WINDOW, GUARD, HOOK = DAY["window"], DAY["guards"]["users"], DAY["announce"][0]
TLS = "certificates mean TLS: expected an address with https"
PROM = {"url": "http://prom:9090", "query": "up"}
RULED = {"url": "http://prom:9090", "rules": "alerts.yml"}
FULL: dict[str, Any] = {
    "description": "every part",
    "freezes": [{"yaml": "freezes.yaml", "oldest": "24h"}, {"ics": "https://calendar.example/x.ics", "token": "env:T"},
                {"ics": "env:CALENDAR", "token": "file:token", "ca": "ca.pem"}],
    "approval": {
        "allowed_signers": "allowed_signers",
        "people": 3,
        "ticket": {
            "url": "https://change.example/api/{change}",
            "token": "env:CHANGE",
            "ca": "ca.pem",
            "state": "/result/state",
            "approved": "implement",
            "begins": "/result/start",
            "ends": "/result/end",
            "digest": "/result/text",
        },
    },
    "consent": {"allowed_signers": "allowed_signers"},
    "ladder": {"labs": "lab-runs", "within": "240h"},
    "preflight": {"snapshot": {"repository": "nightly", "newest_within": "24h"}, "headroom": ["heap"]},
    "guards": {
        "users": {"counts": "outcome", "prometheus": PROM, "above": "5%"},
        "alarm": {"counts": "blocking", "cloudwatch": {"alarm": "x", "region": "eu-west-1"}},
        "monitor": {"counts": "blocking", "monitor": {"monitor": "id"}},
        "shop": {"counts": "blocking", "http": {"url": "https://s.example", "number": "/x", "at": "/at"}, "above": 2},
        "own": {"counts": "blocking", "program": {"run": ["check", "-q"]}},
    },
    "alerts": {
        "alertmanager": "http://am:9093",
        "expect": [
            {"name": "Down", "experiment": "one", "phase": "dead", "fires_within": "2m", "resolves_within": "10m"}
        ],
        "others": 0,
    },
    "announce": [
        {"slack": "env:SLACK", "on": ["before", "abort"], "ca": "ca.pem"},
        {"grafana": "https://g.example", "tags": ["x"], "ca": "ca.pem"},
    ],
    "drill": True,
    "textfile": "/var/lib/node/x.prom",
}  # fmt: skip


def test_every_part_is_taken(tmp_path: Path) -> None:
    day = a_day(tmp_path, **FULL)
    assert day.written.people == 3 and day.written.drilled and day.written.guards["own"].source == "program"
    assert day.resolved("file:x") == f"file:{tmp_path / 'x'}" and day.resolved("env:X") == "env:X"


def test_a_calendar_is_beside_the_file_or_at_an_address(tmp_path: Path) -> None:
    given = [{"ics": each} for each in ("a.ics", "env", "file", "https://x.example/a", "env:X", "file:a.url")]
    freezes = a_day(tmp_path, freezes=given).written.freezes
    assert [each.remote for each in freezes] == [False, False, False, True, True, True]
    assert [each.label for each in freezes] == [each["ics"] for each in given]


def test_a_zone_asks_for_two_people_and_a_drill(tmp_path: Path) -> None:
    node = a_day(tmp_path / "node")
    zone = a_day(tmp_path / "zone", experiments=[{"experiment": "one.yaml", "rung": "zone"}])
    assert (node.written.people, node.written.drilled) == (1, False)
    assert (zone.written.people, zone.written.drilled) == (2, True)


LONG = f"{'x' * 300}.yaml"
"""No file can have this name."""
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"consent": {}}, "a consent is known by a key or by a role: expected allowed_signers or index"),
    ({"consent": {"allowed_signers": "operators"}}, "there is no file operators beside this one: expected OpenSSH's"),
    ({"name": "other"}, "the name is other and the file is staging.yaml"),
    ({"target": "nothing.yaml"}, "there is no file nothing.yaml"),
    ({"target": LONG}, f"there is no file {LONG} beside this one"),
    ({"approval": {"allowed_signers": LONG}}, f"there is no file {LONG} beside this one"),
    ({"consent": {"allowed_signers": LONG}}, f"there is no file {LONG} beside this one"),
    ({"hypothesis": None}, '"hypothesis" is missing'),
    ({"window": {**WINDOW, "zone": "Europe/Nowhere"}}, "there is no time zone Europe/Nowhere"),
    ({"window": {**WINDOW, "zone": "../etc/passwd"}}, "is no time zone"),
    ({"window": {**WINDOW, "from": 600}}, "expected a time of day in quotes"),
    ({"window": {**WINDOW, "from": "10:60"}}, "expected a time of day in quotes"),
    ({"window": {**WINDOW, "to": "10:00"}}, "from and to are the same"),
    ({"window": {**WINDOW, "last_start": "16:00"}}, "last_start is outside of 10:00 to 16:00"),
    ({"window": {**WINDOW, "last_start": "15:45"}}, "there is no room for 30m and an abort of 1m"),
    ({"window": {**WINDOW, "to": "10:20"}}, "there is no room for 30m"),
    ({"window": {**WINDOW, "days": ["someday"]}}, "someday"),
    ({"freezes": [{"yaml": "a", "ics": "b"}]}, "a freeze is one calendar"),
    ({"freezes": [{"yaml": "a", "token": "env:T"}]}, "a token is for an address"),
    ({"freezes": [{"ics": "https://u:p@x.example/a"}]}, "no user and password in the address"),
    ({"freezes": [{"ics": "env:"}]}, "env: names nothing"),
    ({"freezes": [{"ics": "ftp://x.example/a"}]}, "ftp://x.example/a is no address"),
    ({"freezes": [{"ics": "http://x.example/a", "ca": "ca.pem"}]}, TLS),
    ({"freezes": [{"ics": "a.ics", "ca": "ca.pem"}]}, TLS),
    ({"freezes": [{"yaml": "a", "ca": "ca.pem"}]}, TLS),
    ({"approval": {"ticket": {**FULL["approval"]["ticket"], "url": "http://x.example"}}}, TLS),
    ({"approval": {}}, "nobody could approve"),
    ({"approval": {"allowed_signers": "nobody"}}, "there is no file nobody"),
    ({"ladder": {}}, "a ladder is climbed or waived"),
    ({"ladder": {"waived": "no"}}, "waived"),
    ({"guards": {}}, "guards"),
    ({"guards": {"users": {**GUARD, "counts": "blocking"}}}, "no guard says how users are"),
    ({"guards": {"users": {"counts": "outcome"}}}, "a guard asks one source"),
    ({"guards": {"users": {**GUARD, "prometheus": PROM, "above": 1}}}, "a guard asks one source"),
    ({"guards": {"users": {"counts": "outcome", "prometheus": PROM}}}, "a number has one bad side"),
    ({"guards": {"users": {**GUARD, "above": 1}}}, "program answers no number"),
    ({"guards": {"users": {"counts": "outcome", "prometheus": RULED, "above": 1}}}, "an alert rule answers no number"),
    ({"guards": {"users": {"counts": "outcome", "prometheus": PROM | RULED}}}, "expected query or rules"),
    ({"guards": {"users": {"counts": "outcome", "prometheus": {"url": PROM["url"]}}}}, "expected query or rules"),
    ({"guards": {"users": {"counts": "outcome", "prometheus": PROM | {"alert": "Red"}, "above": 1}}}, "expected rules"),
    ({"guards": {"users": {"counts": "outcome", "prometheus": RULED | {"fresh": "x"}}}}, "expected no fresh"),
    ({"guards": {"users": {**GUARD, "timeout": "20s"}}}, "timeout 20s is more than every 10s"),
    ({"guards": {"users": {**GUARD, "every": "500ms"}}}, "500ms is too often"),
    ({"guards": {"Users!": GUARD}}, "Users!"),
    ({"alerts": {"prometheus": "http://p:9090"}}, "nothing is expected of alerts"),
    ({"alerts": {"others": 0}}, "alerts are asked of one server"),
    ({"announce": []}, "announce"),
    ({"announce": [{**HOOK, "on": ["end"]}]}, "nobody is told of 'before'"),
    ({"announce": [{**HOOK, "on": ["before"]}]}, "nobody is told of 'abort'"),
    ({"announce": [{**HOOK, "slack": "env:S"}]}, "an announcement goes one way"),
    ({"announce": [{"slack": "https://hooks.example/secret"}]}, "a secret is given by reference only"),
    ({"announce": [{**HOOK, "tags": ["x"]}]}, "tags are of a Grafana annotation"),
    ({"announce": [{"webhook": "ftp://x"}]}, "ftp://x is no address"),
    ({"announce": [{"webhook": "file:"}]}, "file: names nothing"),
    ({"announce": [{**HOOK, "ca": "ca.pem"}]}, TLS),
    ({"announce": [{"grafana": "http://g.example", "ca": "ca.pem"}]}, TLS),
    ({"stop": {"file": "stop"}}, "stop is not absolute"),
    ({"textfile": "x.prom"}, "expected an absolute path"),
    ({"experiments": [{"experiment": "one.yaml", "rung": "observe"}]}, "rung"),
    ({"kind": "existing"}, "this file is of kind existing"),
    ({"surprise": 1}, 'unknown key "surprise"'),
]


@pytest.mark.parametrize(("change", "says"), WRONG, ids=lambda each: str(each)[:60])
def test_a_mistake_is_told_with_its_place(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    file = written(tmp_path, **{key: value for key, value in change.items() if key != "name"})
    if "name" in change:
        file.write_text(file.read_text().replace('name: "staging"', 'name: "other"'))
    with pytest.raises(InvalidInput) as error:
        load_gameday(file)
    assert says in error.value.message and f"{file.name}:" in error.value.message.splitlines()[0], error.value.message


def test_an_experiment_whose_name_no_file_can_have_is_told_with_its_place(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_text(file.read_text().replace("one.yaml", LONG))
    with pytest.raises(InvalidInput, match=r"^\S+:\d+:\d+: there is no file x{300}\.yaml beside this one"):
        load_gameday(file)


# ---- alert rules ------------------------------------------------------------------------------------------------

RULES = """groups:
  - name: ours
    rules:
      - {alert: OpensearchIsRed, expr: opensearch_cluster_status == 2, for: 1m, labels: {severity: critical}}
      - {alert: OpensearchIsYellow, expr: opensearch_cluster_status == 1, labels: {severity: warning}}
"""


def ruled(folder: Path, content: str = RULES, **given: Any) -> Path:
    (folder / "alerts.yml").write_text(content)
    return written(folder, guards={"users": {"counts": "outcome", "prometheus": {**RULED, **given}}})


def test_a_guard_takes_a_file_of_alert_rules_and_keeps_what_it_said(tmp_path: Path) -> None:
    guard = load_gameday(ruled(tmp_path, alert="OpensearchIsRed")).written.guards["users"]
    assert guard.prometheus is not None and guard.says == "firing"
    assert guard.prometheus.sli.rules == "alerts.yml" and guard.prometheus.sli.alert == ("OpensearchIsRed",)
    without = a_day(tmp_path, guards={"users": {"counts": "outcome", "prometheus": PROM, "above": 1}}).written
    dumped = without.guards["users"].model_dump(mode="json")["prometheus"]
    assert not {"rules", "alert", "labels"} & set(dumped)  # the digest of a day that was approved stays


@pytest.mark.parametrize(
    ("given", "rules", "says", "at"),
    [
        ({"alert": "OpensearchIsRd"}, RULES, "has no alert OpensearchIsRd: did you mean \"OpensearchIsRed\"?",
         "staging.yaml:"),
        ({"labels": {"severity": "page"}}, RULES, "no alert of alerts.yml has severity: page", "staging.yaml:"),
        ({"rules": "none.yml"}, RULES, "none.yml", ""),
        ({}, RULES.replace("== 2", "=== 2"), "alerts.yml:4", "alerts.yml:4"),
        ({}, "groups: []\n", "alerts.yml has no alert", "staging.yaml:"),
    ],
)  # fmt: skip
def test_rules_that_cannot_be_had_are_refused_with_their_place(
    tmp_path: Path, given: dict[str, Any], rules: str, says: str, at: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        load_gameday(ruled(tmp_path, rules, **given))
    assert says in error.value.message and at in error.value.message, error.value.message
