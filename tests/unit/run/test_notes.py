"""What arithmetic says of a plan: the number that is needed stands in each note, and it is the one that checks use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import ROOT
from hypothesis import given
from hypothesis import strategies as st
from making import OFFERS
from typer.testing import CliRunner

from chaos.checks import good, latency
from chaos.checks.prospect import Length, Prospect
from chaos.cli import app
from chaos.registry import load_experiment
from chaos.run import notes

HEALTHY = "healthy: {for: 30s}"
DARK = "dark: {for: 60s, inject: {network.drop: {links: around everything in zone c}}}"


def written(
    folder: Path, *phases: str, expect: str = '{read.good: ">= 90%"}', rate: str = "10/s", more: str = ""
) -> Path:
    file = folder / "x.yaml"
    lines = "".join(f"  {phase}\n" for phase in phases)
    file.write_text(
        "apiVersion: opensearch-chaos/v1\nname: x\n"
        f"topology: {ROOT / 'topologies'}/3az-standby.yaml\n"
        f"load:\n  read: {{rate: {rate}, good: ok within 1s}}\n  write: {{rate: {rate}, good: ok within 1s}}\n"
        f"  visibility: {{rate: 2/s}}\n"
        f"phases:\n{lines}expect:\n  - {expect}\n{more}"
    )
    return file


def said(folder: Path, *phases: str, **given: str) -> list[str]:
    return notes.of(load_experiment(written(folder, *phases, **given)), 1, OFFERS)


@pytest.mark.parametrize(
    ("expect", "note"),
    [
        (
            '{phase: dark, read.good: ">= 99.9%"}',
            "read.good >= 99.9% in dark will be inconclusive: 600 arrivals at 10/s, and 1\u00a0000 are needed: "
            "a phase of 100 s, or 16.7/s",
        ),
        (
            '{phase: dark, read.p99.9: "<= 1s"}',
            "read.p99.9 <= 1s in dark will be inconclusive: 600 arrivals at 10/s, and 1\u00a0000 are needed: "
            "a phase of 100 s, or 16.7/s",
        ),
        (
            '{phase: dark, read.p99: "<= 10s"}',
            "read.p99 <= 10s in dark can never fail: clients wait 5 s, and of what takes longer no more is known; "
            "expected a bound of 5 s or less",
        ),
        (
            '{phase: dark, read.p50: "> 10s"}',
            "read.p50 > 10s in dark can never hold: clients wait 5 s, and of what takes longer no more is known; "
            "expected a bound below 5 s",
        ),
        (
            '{phase: dark, write.outage: "<= 90s"}',
            "write.outage <= 90s in dark can never fail: the phase lasts 60 s at most; "
            "expected a bound of 60 s or less",
        ),
        (
            '{phase: dark, write.regained: "<= 90s"}',
            "write.regained <= 90s in dark can never fail: it is watched for 60 s, until the next command or the end "
            "of the phases; expected a bound of 60 s or less",
        ),
        (
            '{phase: dark, write.regained: "<= 40s"}',
            "write.regained <= 40s in dark may be inconclusive: what is good again after 40 s must stay so for 30 s, "
            "and it is watched for 60 s, until the next command or the end of the phases; 70 s are needed",
        ),
        (
            '{phase: dark, recovery.node_left: "<= 90s"}',
            "recovery.node_left <= 90s in dark can never fail: it is watched for 60 s, until the next command; "
            "expected a bound of 60 s or less",
        ),
        (
            '{phase: dark, read.slices: ">= 99.9%"}',
            "read.slices >= 99.9% in dark will be inconclusive: 30 slices at 0.5/s, and 1\u00a0000 are needed: "
            "a phase of 33 min 20 s",
        ),
        ('{phase: dark, visible.p99: "<= 2s"}', None),
        ('{phase: dark, read.good: ">= 99%"}', None),
        ('{phase: dark, write.regained: "<= 30s"}', None),
        ('{phase: dark, write.outage: "<= 60s"}', None),
        ('{phase: dark, read.p99: "<= 5s"}', None),
    ],
)
def test_what_a_check_will_not_have(tmp_path: Path, expect: str, note: str | None) -> None:
    assert said(tmp_path, HEALTHY, DARK, expect=expect) == ([note] if note else [])


def test_a_quantile_of_33_arrivals(tmp_path: Path) -> None:
    (note,) = said(tmp_path, "healthy: {for: 11s}", rate="3/s", expect='{read.p99.9: "<= 1s"}')
    assert "33 arrivals at 3/s, and 1\u00a0000 are needed: a phase of 334 s" in note


def test_a_phase_of_a_millisecond(tmp_path: Path) -> None:
    first, *_ = said(tmp_path, HEALTHY, "blink: {for: 1ms, inject: {node.kill: {target: node c-data}}}")
    assert first.startswith("phase blink lasts 1 ms, and no read (one every 100 ms) and write (one every 100 ms) falls")
    assert first.endswith("the run will be inconclusive; 100 ms are needed at least")
    first, *_ = said(tmp_path, HEALTHY, "blink: {for: 500ms, inject: {node.kill: {target: node c-data}}}")
    assert first.startswith("phase blink lasts 500 ms, and the cluster is looked at every 1 s")


def test_no_healthy_phase(tmp_path: Path) -> None:
    (note,) = said(tmp_path, DARK)
    assert note == (
        "no phase comes before the first fault: whether users were served well before it is not measured, and outages "
        "are judged against 0.10 % of failures; 10 s are needed for 100 arrivals of each operation"
    )
    (note,) = said(tmp_path, "healthy: {for: 5s}", DARK, expect='{phase: dark, read.good: ">= 90%"}')
    assert note.startswith("only 5 s come before the first fault")
    assert said(tmp_path, "healthy: {for: 60s}") == [], "nothing is done, so nothing has to come before"
    (note, other, _) = said(tmp_path, DARK, expect='{phase: dark, recovery.latency: "<= 30s"}')
    assert "0 reads come before the first command, and 100 are needed for a baseline" in other


def test_phases_that_wait_for_green(tmp_path: Path) -> None:
    inject = "inject: {network.drop: {links: around everything in zone c}}"
    (note,) = said(tmp_path, HEALTHY, f"dark: {{{inject}, until: {{green: true, stable: 10s, within: 180s}}}}")
    assert note == (
        "phase dark waits for green, which cannot come while packets vanish on links around everything in zone c keeps "
        "c-cm, c-data out of the cluster, and 2 data nodes cannot hold 3 copies of a shard: it will end by its "
        "deadline, inconclusive; undo that before"
    )
    slow = "inject: {network.latency: {links: to zone c, delay: 300ms}}"
    (note,) = said(tmp_path, HEALTHY, f"slow: {{{slow}, until: {{green: true, stable: 10s, within: 60s}}}}")
    assert note.startswith("phase slow may be inconclusive: green counts once") and "within is 1m, and 78 s" in note


@pytest.mark.parametrize(
    ("links", "unused"),
    [
        ("from clients of zone c to role data", True),
        ("from clients of zone a to role data", False),
        ("from clients to role data", False),
        ("to zone c", False),
    ],
)
def test_links_that_no_request_takes(tmp_path: Path, links: str, unused: bool) -> None:
    inject = f"slow: {{for: 60s, inject: {{network.latency: {{links: {links}, delay: 300ms}}}}}}"
    found = said(tmp_path, HEALTHY, inject)
    assert bool(found) == unused
    if unused:
        assert "no client sends from zone c, they are in a and b; load.client.zones says where" in found[0]


def test_programs_that_are_not_here(tmp_path: Path) -> None:
    more = "guards: {command: {run: [no-such-program, --now]}}\n"
    (note,) = said(tmp_path, HEALTHY, more=more)
    assert note == (
        "a run on this machine will be refused: the guard command cannot be evaluated: there is no program "
        "'no-such-program'"
    )
    (note,) = said(tmp_path, HEALTHY, "roll: {during: {command: [no-such-program], within: 1m}}")
    assert "phase roll waits for a command, and there is no program 'no-such-program'" in note


def test_too_few_writes_for_a_word_about_data(tmp_path: Path) -> None:
    (note,) = said(tmp_path, "healthy: {for: 20s}", expect="{acknowledged.lost: 0}")
    assert "200 writes at 10/s in 20 s of phases, and 299 that are acknowledged are needed" in note
    assert note.endswith("30 s of phases, or 14.9/s")
    assert said(tmp_path, HEALTHY, expect="{acknowledged.lost: 0}") == []


def test_validate_and_plan_print_them_and_the_plan_keeps_them(tmp_path: Path) -> None:
    file = written(tmp_path, HEALTHY, DARK, expect='{phase: dark, read.good: ">= 99.9%"}')
    for command in ("validate", "plan"):
        shown = CliRunner().invoke(app, [command, str(file)])
        assert shown.exit_code == 0
        assert "note: read.good >= 99.9% in dark will be inconclusive" in shown.output.replace("\n", " ")
    shown = CliRunner().invoke(app, ["plan", str(file), "--json"])
    assert json.loads(shown.output)["notes"] == said(
        tmp_path, HEALTHY, DARK, expect='{phase: dark, read.good: ">= 99.9%"}'
    )


@given(st.floats(0.5, 0.9999), st.floats(0.5, 200), st.floats(1, 600))
def test_a_share_is_foreseen_as_inconclusive_iff_the_check_would_say_so(
    target: float, rate: float, seconds: float
) -> None:
    prospect = Prospect("read.good", "good", ">=", target, "x", Length(seconds, seconds), Length(0, 0), "read", rate)
    least = good.needed(">=", target)
    assert bool(list(prospect.needs(least))) == (int(rate * seconds + 1e-6) < least)


@given(st.sampled_from(sorted(latency.QUANTILES)), st.floats(0.5, 200), st.floats(1, 600))
def test_a_quantile_too(name: str, rate: float, seconds: float) -> None:
    lasts = Length(seconds, seconds)
    prospect = Prospect("read.p", name, "<=", 1.0, "x", lasts, lasts, "read", rate, timeout=5.0)
    least = latency.needed(latency.QUANTILES[name])
    assert bool(list(latency.foresee(prospect))) == (int(rate * seconds + 1e-6) < least)
