"""What oschaos-host takes and refuses, and the rules that it would load: pure text, nothing is run."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from apart import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.hosts import oschaos_host as program
from chaos.hosts.oschaos_host import Refused

SOURCE = Path(program.__file__).read_text()
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _ask(**changes: Any) -> dict[str, Any]:
    ask = {"intent": "network.drop", "name": "r1_f1", "peers": ["10.0.0.2"], "direction": "both", "everything": False,
           "local_ports": [9300], "remote_ports": [9300]}  # fmt: skip
    return {**ask, **changes}


def test_it_is_one_file_of_the_oldest_python_that_hosts_have() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert SOURCE.startswith("#!/usr/bin/python3 -IS\n")  # nothing of the caller's is imported


def test_no_shell_and_no_clock_that_can_be_set() -> None:
    calls = [node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Call)]
    assert not any(keyword.arg == "shell" for call in calls for keyword in call.keywords)
    assert not any(ast.unparse(call.func) in ("os.system", "os.popen", "eval", "exec") for call in calls)
    functions = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)]
    wall = {each.name for each in functions if "time.time()" in ast.unparse(each)}
    assert wall == {"facts"}  # where it is told, and no more


@given(st.sampled_from(["begin", "extend", "undo", "state", "sweep", "probe", "lookup"]), ANYTHING)
@settings(max_examples=examples(400))
def test_whatever_is_no_request_is_refused_by_a_sentence(verb: str, given: Any) -> None:
    if given == {} and verb in ("state", "sweep"):
        return
    with pytest.raises(Refused) as refused:
        program.VERBS[verb](given)
    assert refused.value.why


GOOD: dict[str, Any] = {"run": "r1", "id": "f1", "token": 1, "ttl": 10, "intent": "network.loss", "node": "es-1",
                        "peers": ["10.0.0.2"], "share": 0.1}  # fmt: skip


def _check(ask: dict[str, Any]) -> dict[str, Any]:
    intent = program.INTENTS[ask["intent"]]
    return program.checked(ask, {**program.COMMON, "node": program.NODE, **intent.needed}, intent.optional)


@pytest.mark.parametrize(
    "field, values",
    {
        "run": ["", "a" * 41, "A", "a_b", "a/b", "a;b", "a\n", 7, None],
        "id": ["../x", "a b", "$(x)", "a\0"],
        "token": [-1, 2**63, 1.0, True, "1"],
        "ttl": [1.9, 86401, "10", True, float("inf"), float("nan"), 10**400],
        "node": ["", "../x", "-x", "a b", "a" * 81],
        "peers": [[], "10.0.0.2", ["10.0.0.2/24"], ["host.example"], ["fe80::1%eth0"], ["10.0.0.2; drop"],
                  ["10.0.0.1"] * 65, [1], [None]],
        "share": [0, 1.1, "0.5", None],
    }.items(),
)  # fmt: skip
def test_each_field_has_its_type_and_range(field: str, values: list[Any]) -> None:
    assert _check(GOOD)
    for value in values:
        with pytest.raises(Refused, match=f"^{field}: "):
            _check({**GOOD, field: value})


def test_missing_and_unknown_fields_are_named() -> None:
    with pytest.raises(Refused, match="share is missing"):
        _check({key: value for key, value in GOOD.items() if key != "share"})
    with pytest.raises(Refused, match="unknown field 'shell'"):
        _check({**GOOD, "shell": "x"})
    assert _check({**GOOD, "peers": ["::ffff:10.0.0.9", "10.0.0.9"]})["peers"] == ["10.0.0.9"]


def test_the_rules_of_a_drop() -> None:
    assert program.rules(_ask(peers=["10.0.0.2", "fd00::2"]), [("10.9.0.1", 22)]).splitlines() == [
        "table inet oschaos_r1_f1 {",
        "  chain in {",
        "    type filter hook input priority -300; policy accept;",
        '    ip saddr 10.9.0.1 tcp dport 22 counter accept comment "spared"',
        '    ip saddr { 10.0.0.2 } tcp dport { 9300 } counter drop comment "hit"',
        '    ip saddr { 10.0.0.2 } tcp dport != { 9300 } tcp sport { 9300 } counter drop comment "hit"',
        '    ip6 saddr { fd00::2 } tcp dport { 9300 } counter drop comment "hit"',
        '    ip6 saddr { fd00::2 } tcp dport != { 9300 } tcp sport { 9300 } counter drop comment "hit"',
        "  }",
        "  chain out {",
        "    type filter hook output priority -300; policy accept;",
        '    ip daddr 10.9.0.1 tcp sport 22 counter accept comment "spared"',
        '    ip daddr { 10.0.0.2 } tcp sport { 9300 } counter drop comment "hit"',
        '    ip daddr { 10.0.0.2 } tcp sport != { 9300 } tcp dport { 9300 } counter drop comment "hit"',
        '    ip6 daddr { fd00::2 } tcp sport { 9300 } counter drop comment "hit"',
        '    ip6 daddr { fd00::2 } tcp sport != { 9300 } tcp dport { 9300 } counter drop comment "hit"',
        "  }",
        "}",
    ]


@given(
    st.sampled_from(["network.drop", "network.refuse", "network.reset", "network.loss"]),
    st.lists(st.ip_addresses().map(str), min_size=1, max_size=5, unique=True),
    st.sampled_from(["in", "out", "both"]),
    st.booleans(),
    st.lists(st.tuples(st.ip_addresses().map(str), st.integers(1, 65535)), max_size=2),
)
def test_our_way_in_comes_first_and_every_rule_names_peers(
    intent: str, peers: list[str], direction: str, everything: bool, spared: list[tuple[str, int]]
) -> None:
    ask = _ask(intent=intent, peers=peers, direction=direction, everything=everything, share=0.5)
    chains = re.findall(r"  chain (\w+) \{\n(.*?)\n  \}", program.rules(ask, spared), re.DOTALL)
    assert [name for name, _ in chains] == (["in", "out"] if direction == "both" else [direction])
    for _, text in chains:
        hook, *lines = text.splitlines()
        kinds = [re.search(r'comment "(\w+)"', line)[1].replace("met", "hit") for line in lines]  # type: ignore[index]
        assert kinds == ["spared"] * len(spared) + ["hit"] * (len(kinds) - len(spared))
        assert "priority -300" in hook and "policy accept" in hook
        named = " ".join(line for line, kind in zip(lines, kinds, strict=True) if kind == "hit")
        assert all(peer in named for peer in peers)
        assert all(
            re.search(r"ip6? [sd]addr \{", line) for line, kind in zip(lines, kinds, strict=True) if kind == "hit"
        )
        assert everything or all(" tcp " in line for line in lines)


@given(st.floats(0.001, 1))
def test_the_share_that_is_lost(share: float) -> None:
    text = program.rules(_ask(intent="network.loss", share=share), [])
    drawn = {int(each) for each in re.findall(r"random mod 1000 < (\d+) counter drop", text)}
    assert len(drawn) == 1 and abs(drawn.pop() / 1000 - share) <= 0.0005001
    rules = [line.strip() for line in text.splitlines() if "counter" in line]
    met, hit = rules[::2], rules[1::2]  # each packet is counted before it is drawn for, by the same match
    assert [each.replace(' counter comment "met"', "") for each in met] == [
        re.sub(r" numgen .*", "", each) for each in hit
    ]


def test_the_queues_of_a_bandwidth_and_of_a_latency() -> None:
    ask = _ask(intent="network.bandwidth", rate=1000, local_ports=[], remote_ports=[9300])
    major = f"{program.handle_of('r1_f1'):x}"
    lines = program.queues(ask, "eth0", ["10.0.0.2", "fd00::2"], [("10.9.0.1", 22)])
    assert lines == [
        f"qdisc add dev eth0 root handle {major}: htb default 0",
        f"class add dev eth0 parent {major}: classid {major}:1 htb rate 8000bit ceil 8000bit quantum 60000",
        f"filter add dev eth0 parent {major}: protocol ip prio 10 u32 match ip dst 10.9.0.1/32 "
        f"match ip sport 22 0xffff flowid {major}:0",
        f"filter add dev eth0 parent {major}: protocol ip prio 20 u32 match ip dst 10.0.0.2/32 "
        f"match ip dport 9300 0xffff flowid {major}:1",
        f"filter add dev eth0 parent {major}: protocol ipv6 prio 21 u32 match ip6 dst fd00::2/128 "
        f"match ip6 dport 9300 0xffff flowid {major}:1",
    ]
    del ask["rate"]
    delayed = program.queues({**ask, "delay_ms": 100, "jitter_ms": 10}, "eth0", ["10.0.0.2"], [])
    assert delayed[2].endswith("netem delay 100ms 10ms limit 100000") and f"parent {major}:1 " in delayed[2]
    assert 0x1000 <= program.handle_of("r1_f1") < 0xFFFF


def test_every_intent_has_steps_that_can_be_made_undone_and_measured() -> None:
    planned = set(re.findall(r'"step": "(\w+)"', SOURCE))
    assert planned == set(program.STEPS)
    for name, intent in program.INTENTS.items():
        assert intent.does and intent.undone, name
        assert set(intent.kernel) <= set(program.PROBES)


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"nodes": {}}, "nodes"),
        ({"nodes": {"a b": {"unit": "x.service"}}}, "nodes"),
        ({"nodes": {"es": {"unit": "x.service; rm"}}}, "unit"),
        ({"nodes": {"es": {"unit": "x.service", "pidfile": "/x"}}}, "unknown field 'pidfile'"),
        ({"nodes": {"es": {"pidfile": "/x", "start": ["sh"], "user": "u"}}}, "absolute path"),
        ({"nodes": {"es": {"pidfile": "/x", "start": ["/sh"]}}}, "user is missing"),
        ({"nodes": {"es": 7}}, "no JSON object"),
        ({"intents": ["node.erase"]}, "intents"),
        ({"longest": 0}, "longest"),
        ({"peers": ["10.0.0.1/8"]}, "peers"),
        ({"everything": "yes"}, "everything"),
        ({"shell": True}, "unknown field"),
    ],
)
def test_a_configuration_that_says_what_is_not_known_is_refused(
    changes: dict[str, Any], why: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "ROOT", str(tmp_path))
    (tmp_path / "etc").mkdir(mode=0o755)
    path = tmp_path / "etc" / "oschaos-host.json"
    good = {"nodes": {"es": {"unit": "opensearch.service", "ports": [9300]}}, "intents": ["node.kill"], "longest": 900}
    path.write_text(json.dumps(good))
    path.chmod(0o644)
    assert program.configuration()["longest"] == 900
    path.write_text(json.dumps({**good, **changes}))
    with pytest.raises(Refused, match=re.escape(why)):
        program.configuration()


def test_a_limit_of_a_device_is_its_line_and_what_else_stands_there_is_kept(tmp_path: Path) -> None:
    """As version 2 writes io.max: devices without a limit have no line."""
    unlimited = "rbps=max wbps=max riops=max wiops=max"
    path = tmp_path / "io.max"
    path.write_text("8:16 rbps=max wbps=1000 riops=max wiops=7\n")
    step = program.value(str(path), "rbps=5 wbps=5 riops=max wiops=7", "8:16", unlimited)
    assert step["before"] == "rbps=max wbps=1000 riops=max wiops=7"
    assert program.value(str(path), "x", "8:1", unlimited)["before"] == unlimited
    assert program.undo_value(step) == {"gone": "io.max is rbps=max wbps=1000 riops=max wiops=7 as before"}
    path.write_text("8:16 rbps=9 wbps=9 riops=max wiops=max\n")
    assert "somebody else changed" in program.undo_value(step)["left"]
    path.write_text(f"8:16 {step['ours']}\n")
    program.undo_value(step)
    assert path.read_text() == "8:16 rbps=max wbps=1000 riops=max wiops=7"
    path.unlink()
    assert "control group is gone" in program.undo_value(step)["gone"]
    with pytest.raises(Refused, match="is not there"):
        program.value(str(path), "x")


def test_addresses_of_the_kernels_table_are_read_whatever_bytes_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """37 is the sign that separates an address from its device in text."""
    lines = {
        "tcp": "  0: 0100007F:2454 2502A8C0:0016 01 0 0 0 0 0 41\n  1: 25252525:0016 0100007F:01BB 0A 0 0 0 0 0 42",
        "tcp6": "  0: 0000000000000000FFFF000025250A0A:0016 000000FD000000000000000002000000:0400 01 0 0 0 0 0 43",
    }
    monkeypatch.setattr(program, "text_of", lambda path, most: "head\n" + lines[path.rpartition("/")[2]])
    assert list(program.sockets("self")) == [
        ("127.0.0.1", 9300, "192.168.2.37", 22, "01", "41"),
        ("37.37.37.37", 22, "127.0.0.1", 443, "0A", "42"),
        ("10.10.37.37", 22, "fd00::2", 1024, "01", "43"),
    ]
