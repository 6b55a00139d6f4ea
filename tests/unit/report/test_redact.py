"""A mailed report names nobody: in no file, in no escaping, hostile names included; and it says the same."""

from __future__ import annotations

import html
import json
import re
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

import pytest
import synthetic
from hypothesis import given
from hypothesis import strategies as st

from chaos.history import History
from chaos.report import redact, render

EVIL = '<script>alert("idx")</script>\'"&amp; ]]> {{7*7}}'
LONG = "orders-" + "y" * 10_000
NODES = {"a-data": "es-frankfurt-01", "b-data": EVIL, "c-data": "q7", "c-cm": "db1.corp.example", "a-cm": LONG}
SECRETS = (
    "es-frankfurt-01",
    "frankfurt",
    EVIL,
    "alert(",
    "db1.corp.example",
    "corp.example",
    "orders-2026",
    "10.20.30.40",
    "fd00:12:34::9",
    "02:42:ac:11:00:02",
    "search.acme.internal",
    "jdoe",
    "mallory@acme.example",
    "/srv/acme",
    "acme",
    "secret-dir",
    "buildbox-7",
    "yyyyyyyy",
)


OTHERS = {**NODES, "chaos-idx": "orders-2026"}
NAMED = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, OTHERS))})(?![\w-])")


def _swap(given: Any) -> Any:
    """The synthetic names for others, in every string."""
    if isinstance(given, str):
        return NAMED.sub(lambda found: OTHERS[found[1]], given)
    if isinstance(given, dict):
        return {_swap(key): _swap(value) for key, value in given.items()}
    return [_swap(item) for item in given] if isinstance(given, list) else given


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder full of names."""
    monkeypatch.setattr("socket.gethostname", lambda: "buildbox-7")
    monkeypatch.setattr("getpass.getuser", lambda: "jdoe")
    story = synthetic.lost_writes()
    story.cas, story.visibility = synthetic.Compared(), synthetic.Probed()
    story.expect += [synthetic.expect(f"{what}", "==", 0) for what in ("stale.reads", "cas.violations", "dirty.reads")]
    for chapter in story.chapters:
        for event in chapter.events:
            if "index" in event[2]:
                event[2]["index"] = "orders-2026"
    story.chapters[1].event(40, "note", says=f"jdoe on buildbox-7 read {LONG[:200]}…")
    story.chapters[1].event(
        41, "guard.tripped", guard="command", says="http://search.acme.internal:9200/orders-2026/_search said no"
    )
    story.chapters[1].event(42, "error", says=f"{EVIL} at 10.20.30.40:9300 [fd00:12:34::9] 02:42:ac:11:00:02")
    folder = story.write(tmp_path / "run")
    for file in ("plan.json", "history/readback.json", "clean.json"):
        path = folder / file
        path.write_text(json.dumps(_swap(json.loads(path.read_text()))))
    events = folder / "history" / "events.jsonl"
    events.write_text("".join(json.dumps(_swap(json.loads(line))) + "\n" for line in events.read_text().splitlines()))
    for name in ("cas", "probes"):
        lines = folder / "history" / f"{name}.jsonl"
        lines.write_text("".join(json.dumps(_swap(json.loads(line))) + "\n" for line in lines.read_text().splitlines()))
    tables = folder / "history" / "arrivals.json"
    tables.write_text(json.dumps(_swap(json.loads(tables.read_text()))))
    plan = json.loads((folder / "plan.json").read_text())
    plan["command"] = "opensearch-chaos run secret-dir/primary-loss.yaml --seed 7"
    plan["experiment"]["file"] = "secret-dir/primary-loss.yaml"
    plan["topology"]["file"] = "/srv/acme/topologies/3az.yaml"
    plan["experiment"]["description"] += " Ask mallory@acme.example or jdoe at buildbox-7; logs in /home/jdoe/logs."
    plan["client"]["index"] = "orders-2026"
    plan["client"]["targets"] = [{"node": name, "host": "10.20.30.40", "port": 9200} for name in NODES.values()]
    plan["differences"].append("logs of es-frankfurt-01 are at /srv/acme/logs and on search.acme.internal")
    (folder / "plan.json").write_text(json.dumps(plan))
    readback = json.loads((folder / "history" / "readback.json").read_text())
    readback["index"] = "orders-2026"
    (folder / "history" / "readback.json").write_text(json.dumps(readback))
    return folder


def forms(secret: str) -> set[str]:
    """A name as HTML, XML, JSON and an address would write it."""
    return {
        secret,
        html.escape(secret),
        html.escape(secret, quote=False),
        escape(secret),
        quoteattr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret),
        secret.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("'", "\\u0027"),
    }


def test_no_name_survives_in_any_file(run: Path) -> None:
    plain = render(run).parent
    for secret in SECRETS:  # else the test would prove nothing
        assert any(
            form in file.read_text() for file in plain.glob("*.*") for form in forms(secret) if file.is_file()
        ), secret
    page = render(run, redact=True)
    files = sorted(path for path in page.parent.rglob("*") if path.is_file())
    assert {file.name for file in files} == {"findings.json", "report.html", "junit.xml", "summary.md"}
    for file in files:
        said = file.read_text()
        unescaped = html.unescape(html.unescape(said)).replace("\\", "")
        for secret in SECRETS:
            for form in forms(secret):
                assert form.lower() not in said.lower(), (file.name, form)
            assert secret.lower() not in unescaped.lower(), (file.name, secret)


def test_the_redacted_report_says_the_same(run: Path) -> None:
    render(run)
    page = render(run, redact=True)
    before = json.loads((run / "findings.json").read_text())
    after = json.loads((page.parent / "findings.json").read_text())
    for name in ("outcome", "clean", "exit_code"):
        assert before[name] == after[name]
    for one, other in zip(before["findings"], after["findings"], strict=True):
        assert [one[k] for k in ("metric", "phase", "measured", "counts_as", "target")] == [
            other[k] for k in ("metric", "phase", "measured", "counts_as", "target")
        ]
    assert before["tables"]["good"] == after["tables"]["good"]
    assert "Names removed" in page.read_text()


def test_the_same_name_is_the_same_pseudonym_in_every_file(run: Path) -> None:
    copy, redactor = redact.redacted(History.open(run))
    names = redactor.names
    assert len(set(names.values())) == len(names)
    page = render(run, redact=True)
    left = {node["name"] for node in copy.plan["lab"]["nodes"]}
    assert left == {names.get(node["name"], node["name"]) for node in History.open(run).plan["lab"]["nodes"]}
    assert set(copy.arrivals["node"].cat.categories) <= left | {names["es-frankfurt-01"]}
    for file in ("report.html", "findings.json"):
        assert names["es-frankfurt-01"] in (page.parent / file).read_text()
    again = redact.redacted(History.open(run))[1].names
    assert dict(again) == dict(names)


def test_the_original_is_left_alone(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    render(run, redact=True)
    assert {path: path.read_bytes() for path in before} == before


def test_our_own_words_stay() -> None:
    redactor = redact.Redactor()
    redactor.learn("index", ["chaos"])
    redactor.learn("node", ["a-data", "q7"])
    text = redactor.text
    assert text("opensearch-chaos recover") == "opensearch-chaos recover"
    assert text("chaos/1 on a-data") == "index-1/1 on node-1"
    assert text("q7 -> a-data") == "node-2 -> node-1" and text("a q7 chip") == "a q7 chip"
    assert text("oschaos-k3v9-a-data") == "oschaos-k3v9-node-1"
    for same in (
        "read.good >= 99.9%",
        "100/s and 3/4 of it",
        "cluster.fault_detection.follower_check.timeout: 1s",
        "network.latency: +300ms",
        "GET /_cluster/health?local=true",
        "12:30:45",
        "version 3.8.0",
        "a -> b",
    ):
        assert text(same) == same


def test_addresses_hosts_users_and_paths_are_found_anywhere() -> None:
    text = redact.Redactor().text
    assert text("10.1.2.3:9200 and 10.1.2.3") == "address-1:9200 and address-1"
    assert text("at [2001:db8::1]:9300") == "at [address-2]:9300"
    assert "acme" not in text("https://bob:pw@search.acme.co:9200/idx?q=1")
    assert text("in ~/work/x and /var/lib/acme/data").count("path-") == 2
    assert text("C:/acme/x") == "path-3"


@given(
    st.lists(
        st.text(string.ascii_letters + string.digits + "<>&'\"-_. é", min_size=3, max_size=60), min_size=1, max_size=5
    ),
    st.lists(st.text(max_size=10), min_size=6, max_size=6),
)
def test_a_learned_name_never_survives_where_it_stands_alone(names: list[str], between: list[str]) -> None:
    names = [name.strip() for name in names if len(name.strip()) >= 3]
    redactor = redact.Redactor()
    redactor.learn("node", names)
    shown = redactor.text(" | ".join([between[0], *names]))
    pseudonyms = set(redactor.names.values())
    rest = shown
    for pseudonym in sorted(pseudonyms, key=len, reverse=True):
        rest = rest.replace(pseudonym, "\0")
    for part in rest.split(" | ")[1:]:
        assert part not in names


def test_clipped_long_names_are_found() -> None:
    redactor = redact.Redactor()
    redactor.learn("index", [LONG])
    for length in (41, 200, 9_999, len(LONG)):
        assert redactor.text(f"index {LONG[:length]}… of it") == "index index-1… of it"
