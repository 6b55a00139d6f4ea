"""What an approval covers: each field of each model, and files by content. What is left out is named with a reason."""

from __future__ import annotations

import datetime
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from daykit import DAY, TARGET, spelled, written
from pydantic import BaseModel
from signkit import NODES, plan

from chaos.base.units import _Quantity
from chaos.definitions.existing import Existing, load_existing
from chaos.definitions.experiment import Experiment
from chaos.definitions.gameday import GameDay, load_gameday
from chaos.gamedays import approval, decided
from chaos.gamedays.approval import changed, digest_of, in_words

NOW = datetime.datetime(2026, 11, 26, 9, 0, tzinfo=datetime.UTC)
WINDOW = {**DAY["window"], "last_start": "11:00"}
ACCESS = {"user": "u", "password": "env:P", "ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"}
EXPECTED = {"name": "Down", "experiment": "one", "phase": "dead", "fires_within": "2m", "resolves_within": "10m"}
PROM = {"url": "https://prom:9090", "query": "up", "fresh": "time()", "oldest": "30s", "access": ACCESS}
RULED = {"url": "https://prom:9090", "rules": "alerts.yml", "alert": "Red", "labels": {"severity": "critical"}}
HTTP = {"url": "https://s.example", "token": "env:T", "ca": "ca.pem", "number": "/x", "at": "/at", "oldest": "9s"}
TICKET = {"url": "https://c.example/{change}", "token": "env:C", "ca": "ca.pem", "state": "/s", "approved": "go"}
TICKET |= {"begins": "/b", "ends": "/e", "digest": "/d"}
ALERTS = {"access": {"token": "env:A"}, "expect": [{**EXPECTED, "labels": {"zone": "c"}}], "others": 0}
FULL: dict[str, Any] = {
    "description": "every part",
    "experiments": [{"experiment": "one.yaml", "rung": "node", "topology": "3az"}],
    "window": WINDOW,
    "freezes": [{"yaml": "freezes.yaml"}, {"ics": "free.ics"}, {"ics": "feed.ics", "oldest": "24h"},
                {"ics": "https://calendar.example/x.ics", "token": "env:T", "ca": "ca.pem"}],
    "approval": {"allowed_signers": "allowed_signers", "people": 3, "ticket": TICKET},
    "ladder": {"labs": "lab-runs", "within": "240h"},
    "consent": {"allowed_signers": "operators"},
    "preflight": {"snapshot": {"repository": "nightly", "newest_within": "24h"}, "headroom": ["heap"]},
    "guards": {
        "users": {"counts": "outcome", "prometheus": PROM, "above": "5%"},
        "alarm": {"counts": "blocking", "cloudwatch": {"alarm": "x", "region": "eu-west-1", "profile": "p"}},
        "monitor": {"counts": "blocking", "monitor": {"monitor": "id"}},
        "pages": {"counts": "blocking", "prometheus": RULED},
        "shop": {"counts": "blocking", "http": HTTP, "below": 2},
        "own": {"counts": "blocking", "program": {"run": ["./check", "--conf=check.conf"]}},
    },
    "alerts": {"alertmanager": "http://am:9093", "ignore": ["Watchdog"], **ALERTS},
    "announce": [
        {"slack": "env:SLACK", "on": ["before", "abort"], "ca": "ca.pem", "templates": {"before": "{name}"}},
        {"grafana": "https://g.example", "tags": ["x"], "token": "env:G"},
        {"webhook": "http://127.0.0.1:9/hook"},
    ],
    "stop": {"file": "/STOP", "ssh": "chaos@runner"},
    "drill": True,
    "textfile": "/var/lib/node/x.prom",
}  # fmt: skip
OTHER = {
    "consent": {"index": ".consents"},
    "alerts": {"prometheus": "http://p:9090", **ALERTS},
    "ladder": {"waived": "it is a test of the tool"},
    "stop": {"file": "/STOP", "kubernetes": "search"},
}
HOOK = {"inject": ["./hooks/kill", "inject"], "in_effect": ["sh", "kill.sh", "seen"], "undo": ["./hooks/kill"]}
HOOK |= {"gone": ["./hooks/kill", "gone"], "within": "20s", "ttl": "5m"}
TOXIPROXY = {"api": "https://tox:8474", "proxies": {"p": {"from": ["es-b"], "to": "es-a", "url": "https://10.0.0.9:1"}}}
SLOWER = {"slower": "3x", "fewer": "50%"}
WHOLE: dict[str, Any] = {
    "description": "every part",
    "endpoints": ["https://127.0.0.1:9"],
    "access": {**ACCESS, "tls_name": "es"},
    "nodes": {
        name: {"zone": zone, "roles": ["data"], "url": f"https://10.0.0.{n}:9", "ssh": name, "addresses": f"10.0.0.{n}"}
        for n, (name, zone) in enumerate((("es-a", "a"), ("es-b", "b")), 1)
    },
    "load_balancers": {"a": "https://lb-a:9", "b": "https://lb-b:9"},
    "toxiproxies": [TOXIPROXY],
    "hosts": {"config": "ssh_config", "clients": {"a": {"addresses": "10.0.9.4", "ssh": "clients-a"}}},
    "hooks": {"node.kill": HOOK},
    "reads": {"indices": ["logs-*"], "most": "10/s"},
    "caps": {"requests": "200/s", "documents": 10000, "copies": 9},
    "foreign": {"search": SLOWER, "indexing": SLOWER},
    "prefix": "ours-",
    "settings": ["cluster.routing.allocation.enable"],
    "audit": {"refuse": ["managers.votes"]},
    "accept_unavailable": [{"index": "shop", "owner": "team-shop", "until": "2099-12-31"}],
}
ARN = "arn:aws:iam::123456789012:role/fis"
ALARM = "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:x"
FIS = {"region": "eu-west-1", "account": "123456789012", "role": ARN, "longest": "10m", "alarms": [ALARM]}
FIS |= {"profile": "p", "endpoint": "http://127.0.0.1:4566", "time_scale": "10x", "instances": {"tag": "Name"}}
IN_AWS: dict[str, Any] = {"fis": FIS}
ATTRIBUTE: dict[str, Any] = {"fis": {**FIS, "instances": {"attribute": "instance"}}}
BY_ADDRESS: dict[str, Any] = {"fis": {**FIS, "instances": {"by": "private-ip"}}}
DOMAIN: dict[str, Any] = {
    "endpoints": ["https://127.0.0.1:9"],
    "access": {"sigv4": {"region": "eu-west-1", "profile": "p"}},
    "nodes": {"es-a": {"zone": "a", "roles": ["data"]}},
    "domain": {"name": "shop", "region": "eu-west-1", "account": "123456789012", "profile": "p",
               "endpoint": "http://127.0.0.1:4566"},
}  # fmt: skip
UID = "447fb208-1876-4a04-90d6-f18181a05669"
IN_KUBERNETES: dict[str, Any] = {
    "endpoints": ["https://127.0.0.1:9"],
    "kubernetes": {"namespace": "search", "selector": "app=opensearch", "context": "staging", "kubeconfig": "config",
                   "zone_label": "zone", "forward": 9200, "helper": "net:1",
                   "identity": {"cluster": UID, "namespace": UID, "stateful_sets": {"es": UID}}},
    "nodes": {"es-a": {"zone": "a", "roles": ["data"], "pod": "es-0", "url": "https://127.98.0.1:9"}},
}  # fmt: skip
FILES = (
    "operators",
    "freezes.yaml",
    "free.ics",
    "feed.ics",
    "ca.pem",
    "alerts.yml",
    "target/ssh_config",
    "target/hooks/kill",
    "target/kill.sh",
)
ALERT_RULES = "groups: [{name: x, rules: [{alert: Red, expr: up == 0, labels: {severity: critical}}]}]\n"
FILES += ("target/ca.pem", "target/c.pem", "target/k.pem")


def target_text(changes: dict[str, Any]) -> str:
    import yaml

    made = {**yaml.safe_load(TARGET), **changes}
    made["until"] = str(made["until"])
    return "".join(f"{key}: {spelled(value)}\n" for key, value in made.items())


def pair(folder: Path, day: dict[str, Any] = FULL, target: dict[str, Any] = WHOLE) -> tuple[GameDay, Existing]:
    """A day and its target, read from files, with the files that they name."""
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(ALERT_RULES if name == "alerts.yml" else f"content of {name}\n")
    file = written(folder, cluster=target_text(target), **day)
    made = load_gameday(file)
    return made, load_existing(made.target)


def content(day: GameDay, target: Existing) -> dict[str, Any]:
    return approval.content(day, [plan()] * len(day.written.experiments), NODES, target)


# ---- no field is forgotten -------------------------------------------------------------------------------------


def reachable(*roots: Any) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []

    def visit(kind: Any) -> None:
        for each in typing.get_args(kind):
            visit(each)
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
            found.append(kind)
            for field in kind.model_fields.values():
                visit(field.annotation)

    for root in roots:
        visit(root)
    return found


def altered(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, _Quantity):
        return type(value)(value * 2)  # type: ignore[call-arg, operator]
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, datetime.time):
        return value.replace(minute=(value.minute + 1) % 60)
    if isinstance(value, datetime.date):
        return value + datetime.timedelta(days=1)
    if isinstance(value, Path):
        return value / "x"
    raise AssertionError(f"no other value of {value!r}")


Change = tuple[set[tuple[type[BaseModel], str]], Any]


def changes(value: Any) -> Iterator[Change]:
    """Each way of changing one thing in it, with the field that was changed."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            each = getattr(value, name)
            if each is None:
                continue
            for where, new in changes(each):
                yield where or {(type(value), name)}, value.model_copy(update={name: new})
    elif isinstance(value, dict):
        for key in value:
            yield set(), {(f"{k}x" if k == key else k): v for k, v in value.items()}
            for where, new in changes(value[key]):
                yield where, {**value, key: new}
    elif isinstance(value, tuple):
        for number, each in enumerate(value):
            yield set(), value[:number] + value[number + 1 :]
            for where, new in changes(each):
                yield where, (*value[:number], new, *value[number + 1 :])
    elif value is not None:
        yield set(), altered(value)


PAIRS = [(FULL, WHOLE), (OTHER, IN_AWS), ({}, DOMAIN), ({}, ATTRIBUTE), ({}, BY_ADDRESS), ({}, IN_KUBERNETES)]


def test_every_field_of_every_model_is_in_the_digest_or_left_out_with_a_reason(tmp_path: Path) -> None:
    covered: set[tuple[type[BaseModel], str]] = set()
    for number, (given, of_target) in enumerate(PAIRS):
        day, target = pair(tmp_path / str(number), given, of_target)
        for model in (day, target):
            was = decided.data(model)
            assert was["written"] == decided.of(day, target)["gameday" if model is day else "target"]
            for where, new in changes(model):
                (field,) = where
                if field in decided.LEFT_OUT:
                    continue
                assert decided.data(new) != was and list(decided.differs(was, decided.data(new))), field
                covered.add(field)
    every = {(model, name) for model in reachable(GameDay, Existing) for name in model.model_fields}
    containers = {(GameDay, "written"), (Existing, "written")}
    missing = every - covered - set(decided.LEFT_OUT) - containers
    wrapping = {each for each in missing if reachable(each[0].model_fields[each[1]].annotation)}
    assert missing - wrapping == set(), "these fields are changed by no example here: give them a value above"
    assert all(decided.LEFT_OUT.values()) and set(decided.LEFT_OUT) <= every


NO_FILES = {
    "Existing": "file",
    "ExistingFile": "name description endpoints opensearch nodes load_balancers hooks prefix notes settings",
    "AccessFile": "user password tls_name certificate key",
    "SigV4File": "region profile",
    "Identity": "cluster_uuid cluster_name",
    "Zones": "attribute names",
    "Member": "zone roles url ssh addresses pod",
    "KubernetesFile": "namespace selector context kubeconfig zone_label helper",
    "KubernetesIdentity": "cluster namespace stateful_sets",
    "TheirToxiproxy": "api proxies",
    "Passage": "from_ to url",
    "HostsFile": "clients",
    "ClientHost": "addresses ssh",
    "FisFile": "region account role alarms unit profile endpoint",
    "Instances": "tag attribute",
    "DomainFile": "name region account profile endpoint",
    "Reads": "indices",
    "AuditFile": "refuse",
    "Accepted": "index owner",
    "GameDay": "file",
    "GameDayFile": "name description owner hypothesis target guards record textfile",
    "Step": "experiment topology",
    "Window": "zone",
    "Freeze": "token",
    "Approval": "folder",
    "Consent": "index",
    "Ticket": "url token state approved begins ends digest",
    "Ladder": "labs waived",
    "Snapshot": "repository",
    "PrometheusGuard": "url query fresh alert labels",
    "SliAccess": "user password token certificate key",
    "CloudWatchGuard": "alarm region profile",
    "MonitorGuard": "monitor",
    "HttpGuard": "url token number at",
    "Alerts": "prometheus alertmanager ignore",
    "ExpectedAlert": "name experiment phase labels",
    "Announcement": "webhook slack grafana token tags templates",
    "StopBy": "file kubernetes ssh",
}
"""Fields of text whose files, where they name one, do not count by content: definitions that are in as what they say
(target, experiment, topology), what the runner shows of itself (certificate, key, secrets, a kubeconfig, whose cluster
is compared by uids), and folders to write to."""
OF_EXPERIMENTS = {"GuardCommand", "SliAccess"}
"""Models of an experiment whose fields name files; a new one that does belongs into decided.CONTENT."""


def test_every_field_that_may_name_a_file_is_known() -> None:
    def textual(kind: Any) -> bool:
        return kind is str or any(textual(each) for each in typing.get_args(kind))

    found: dict[str, set[str]] = {}
    for model in reachable(GameDay, Existing):
        for name, field in model.model_fields.items():
            if textual(field.annotation) and (model, name) not in decided.CONTENT:
                found.setdefault(model.__name__, set()).add(name)
    assert found == {name: set(fields.split()) for name, fields in NO_FILES.items()}
    in_experiments = {model.__name__ for model, _ in decided.CONTENT if model in reachable(Experiment)}
    assert in_experiments == OF_EXPERIMENTS


# ---- what was found ---------------------------------------------------------------------------------------------


def more(key: str, **given: Any) -> dict[str, Any]:
    return {**WHOLE, key: {**WHOLE[key], **given}}


def hook(**given: Any) -> dict[str, Any]:
    return more("hooks", **{"node.kill": {**HOOK, **given}})


def node(name: str, **given: Any) -> dict[str, Any]:
    return more("nodes", **{name: {**WHOLE["nodes"][name], **given}})


EXCHANGED = {
    "es-a": {**WHOLE["nodes"]["es-a"], "ssh": "es-b"},
    "es-b": {**WHOLE["nodes"]["es-b"], "ssh": "es-a"},
}
OTHER_PROXY = {**TOXIPROXY, "proxies": {"p": {"from": ["es-a"], "to": "es-b", "url": "https://10.0.0.9:1"}}}
FOUND: list[tuple[str, dict[str, Any], str]] = [
    ("accept_unavailable", {**WHOLE, "accept_unavailable": [{"index": "users", "owner": "x", "until": "2099-12-31"}]},
     "target's accept_unavailable.0.index is users and was shop"),
    ("no foreign guard", {**WHOLE, "foreign": None}, "target's foreign.search.slower is not there and was 3x"),
    ("a weaker one", more("foreign", search={"slower": "9x", "fewer": "50%"}), "foreign.search.slower is 9x and was 3"),
    ("a hook's program", hook(inject=["./hooks/other"]), "hooks.node.kill.inject is ./hooks/other and was ./hooks/kil"),
    ("a hook's ttl", hook(ttl="50m"), "target's hooks.node.kill.ttl is 50m and was 5m"),
    ("a node's url", node("es-a", url="https://10.0.0.7:9"), "nodes.es-a.url is https://10.0.0.7:9 and was"),
    ("two hosts of ssh", {**WHOLE, "nodes": EXCHANGED}, "target's nodes.es-a.ssh is es-b and was es-a"),
    ("a load balancer", more("load_balancers", a="https://lb-x:9"), "load_balancers.a is https://lb-x:9 and was"),
    ("a Toxiproxy", {**WHOLE, "toxiproxies": [OTHER_PROXY]}, "toxiproxies.0.proxies.p.to is es-b and was es-a"),
    ("the prefix", {**WHOLE, "prefix": "shop-"}, "target's prefix is shop- and was ours-"),
    ("the notes", {**WHOLE, "notes": ".others"}, "target's notes is .others and was .opensearch-chaos"),
    ("settings", {**WHOLE, "settings": ["cluster.blocks.read_only"]}, "target's settings is cluster.blocks.read_only"),
    ("as whom", more("access", user="admin"), "target's access.user is admin and was u"),
    ("certificates unchecked", {**WHOLE, "access": {"verify": False}}, "target's access.verify is no and was yes"),
    ("the rung's end", {**WHOLE, "until": "2100-01-01"}, "target's until is 2100-01-01 and was 2099-12-31"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "target", "says"), FOUND, ids=[each[0] for each in FOUND])
def test_another_target_is_not_approved(tmp_path: Path, what: str, target: dict[str, Any], says: str) -> None:
    given = {key: value for key, value in target.items() if value is not None}
    before, after = content(*pair(tmp_path / "one")), content(*pair(tmp_path / "two", target=given))
    assert digest_of(before) != digest_of(after)
    told = changed(before, after)
    assert any(says in each for each in told), told


IN_FILES: list[tuple[str, str, str]] = [
    ("a hook's program", "target/hooks/kill", "the file of target.hooks.node.kill.inject: ./hooks/kill"),
    ("a freeze of ours", "freezes.yaml", "the file of gameday.freezes.0.yaml: freezes.yaml"),
    ("a calendar", "free.ics", "the file of gameday.freezes.1.ics: free.ics"),
    ("who is trusted", "target/ca.pem", "the file of target.access.ca: ca.pem"),
    ("what counts as firing", "alerts.yml", "the file of gameday.guards.pages.prometheus.rules: alerts.yml"),
    # attacks of our own
    ("whose consent counts", "operators", "the file of gameday.consent.allowed_signers: operators"),
    ("who may sign", "allowed_signers", "the file of gameday.approval.allowed_signers: allowed_signers"),
    ("where ssh leads: es-a's HostName in ssh's configuration is es-b's", "target/ssh_config",
     "the file of target.hosts.config: ssh_config"),
    ("what an interpreter is given: sh kill.sh", "target/kill.sh",
     "the file of target.hooks.node.kill.in_effect: kill.sh"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "name", "says"), IN_FILES, ids=[each[0] for each in IN_FILES])
def test_a_file_with_another_content_is_not_approved(tmp_path: Path, what: str, name: str, says: str) -> None:
    day, target = pair(tmp_path)
    before = content(day, target)
    assert approval.edited(before, day, target) == []
    (tmp_path / name).write_text("something else\n")
    after = content(day, target)
    assert digest_of(before) != digest_of(after)
    assert f"{says} has another content" in changed(before, after)
    assert f"{says} has another content" in approval.edited(before, day, target)
    (tmp_path / name).unlink()
    assert f"{says} is gone" in changed(before, content(day, target))


def test_a_program_of_a_guard_counts_by_content_and_so_does_a_file_among_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    day, target = pair(tmp_path)
    for name in ("check", "check.conf"):
        before = content(day, target)
        (tmp_path / name).write_text("exit 0\n")
        told = changed(before, content(day, target))
        assert any(each.startswith("the file of gameday.guards.own.program.run: ") for each in told)


def test_an_experiment_s_own_guard_counts_by_content() -> None:
    before, after = ({**plan(), "files": {"experiment x.guards.command.run: ./ok": each}} for each in ("a", "b"))
    from signkit import day_in, wanted

    day = day_in(Path("/nowhere"))
    told = changed(wanted(day, before), wanted(day, after))
    assert told == ["the file of experiment x.guards.command.run: ./ok has another content"]


def test_where_ssh_leads_counts_and_not_where_the_runner_has_its_keys(tmp_path: Path) -> None:
    """An approval is made on one machine and counts on others, which have keys and known hosts elsewhere."""
    config, (day, target) = tmp_path / "target" / "ssh_config", pair(tmp_path)
    text = "Host es-a\n  HostName 10.0.0.1\n  IdentityFile /home/ann/key\n  UserKnownHostsFile=/home/ann/hosts\n"

    def digest(text: str) -> str:
        config.write_text(text)
        return digest_of(content(day, target))

    before = digest(text)
    assert digest(text.replace("/home/ann", "/srv/chaos") + "# of the runner\n") == before
    for other in (
        text.replace("10.0.0.1", "10.0.0.2"),
        text.replace("Host es-a", "Host es-b"),
        text + "  ProxyJump elsewhere\n",
        text + "  StrictHostKeyChecking no\n",
        text + "  User root\n",
    ):
        assert digest(other) != before


def test_what_is_renewed_and_what_is_the_system_s_is_left_out_and_said(tmp_path: Path) -> None:
    day, target = pair(tmp_path)
    before = content(day, target)
    (tmp_path / "feed.ics").write_text("another day's export\n")
    (tmp_path / "target" / "k.pem").write_text("a new key of the runner's\n")
    after = content(day, target)
    assert digest_of(before) == digest_of(after)
    assert not any(place.endswith(": sh") for place in before["decides"]["files"])
    shown = in_words(approval.statement(before, NOW, NOW, "0" * 16))
    assert all(f"  {each}\n" in shown for each in decided.NOT_COVERED)


def test_where_the_files_lie_does_not_matter(tmp_path: Path) -> None:
    assert digest_of(content(*pair(tmp_path / "one"))) != ""
    day, target = pair(tmp_path / "one")
    there = tmp_path / "other" / "clone"
    there.parent.mkdir()
    (tmp_path / "one").rename(there)
    moved = load_gameday(there / "staging.yaml")
    assert digest_of(content(moved, load_existing(moved.target))) == digest_of(
        content(day.model_copy(update={"folder": there}), target.model_copy(update={"folder": there / "target"}))
    )


def test_the_page_that_people_sign_has_every_place(tmp_path: Path) -> None:
    made = content(*pair(tmp_path))
    shown = in_words(approval.statement(made, NOW, NOW, "0" * 16))
    for key in ("target", "gameday"):
        for place, value in decided.lines(made["decides"][key]):
            assert f"  {place}: {value}\n" in shown
    for line in (
        "  foreign.search.slower: 3x",
        "  hooks.node.kill.ttl: 5m",
        "  accept_unavailable.0.index: shop",
        "  load_balancers.a: https://lb-a:9",
        "  guards.own.program.run: ./check, --conf=check.conf",
    ):
        assert f"{line}\n" in shown
    assert f"  target.access.ca: ca.pem ({decided.content_of(tmp_path / 'target' / 'ca.pem')})\n" in shown


FORMS: list[Callable[[Path], str]] = [lambda folder: decided.content_of(folder), lambda f: decided.content_of(f / "no")]


def test_what_is_no_file_is_said_and_never_raised(tmp_path: Path) -> None:
    assert [form(tmp_path) for form in FORMS] == ["cannot be read (Is a directory)", "not there"]
    import os

    os.mkfifo(tmp_path / "pipe")
    assert decided.content_of(tmp_path / "pipe") == "no regular file"
