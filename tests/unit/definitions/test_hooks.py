"""Programs of a cluster's owners in its file: what they must be, where they are, what keeps them from being used."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.definitions.test_existing import UNTIL, written

from chaos.base.errors import InvalidInput
from chaos.definitions.existing import Existing, load_existing
from chaos.definitions.hooks import CALLS, KINDS, MADE_OF
from chaos.registry import FAULTS, PROVIDERS
from chaos.targets.existing import compare, offered
from chaos.targets.existing.compare import Sign
from chaos.targets.protocol import CAPABILITIES, HOOK, NO_OWNERS

HOOKS = """\
hooks:
  node.kill:
    inject: [./hooks/kill, inject]
    in_effect: [./hooks/kill, in_effect]
    undo: [sh, undo]
    gone: ./hooks/kill
    within: 10s
    ttl: 5m
"""


def target(folder: Path, *changes: tuple[str, str]) -> Existing:
    text = UNTIL + HOOKS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return load_existing(written(folder, (UNTIL, text)))


def test_a_program_with_a_path_is_beside_the_file_and_another_one_is_not(tmp_path: Path) -> None:
    made = target(tmp_path)
    hook = made.hook("node.kill")
    assert hook is not None and made.hook("node.stop") is None
    assert hook.words("inject") == (str(tmp_path / "hooks" / "kill"), "inject")
    assert hook.words("undo") == ("sh", "undo") and hook.words("gone") == (str(tmp_path / "hooks" / "kill"),)
    assert (float(hook.within), float(hook.ttl)) == (10.0, 300.0)
    assert made.written.hooks["node.kill"].words("inject")[0] == "./hooks/kill"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("  node.kill:", "  node.kil:"), r'15:3: node\.kil is no kind .* did you mean "node\.kill"'),
        (("  node.kill:", "  disk.full:"), r"15:3: disk\.full is no kind of fault that a hook may carry out"),
        (("  node.kill:", "  zone.isolation:"), r"15:3: .*expected a hook for network\.drop"),
        (("    gone: ./hooks/kill\n", ""), '"gone" is missing'),
        (("    ttl: 5m\n", ""), '"ttl" is missing'),
        (("within: 10s", "within: 10m"), r"20:13: .*10m is long .* expected 5m or less"),
        (("within: 10s", "within: 0s"), "20:13"),
        (("ttl: 5m", "ttl: 9s"), "the ttl of 9s is over before a call has to be"),
        (("[./hooks/kill, inject]", "[]"), "16:13: .*at least 1"),
        (("[./hooks/kill, inject]", "['', inject]"), "16:14: .*some text"),
        (("    undo: [sh", "    undone: [sh"), 'unknown key "undone": did you mean "undo"'),
    ],
)
def test_what_is_wrong_is_told_at_its_place(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        target(tmp_path, change)


def test_every_kind_that_may_be_by_a_program_is_offered_and_has_its_capability() -> None:
    (provider,) = [each for each in PROVIDERS.all if each.name == "hooks"]
    assert set(provider.offers) == set(KINDS) and provider.of_others
    others = {"hosts", "fis", "domain", "pods", "helpers"}
    assert {f"{HOOK}{kind}" for kind in KINDS} == set(NO_OWNERS) - others <= set(CAPABILITIES)
    for kind, offer in provider.offers.items():
        assert offer.needs == (f"{HOOK}{kind}",) and offer.grade == "effect" and offer.proof
    assert {kind: FAULTS[kind].made_of for kind in MADE_OF} == MADE_OF


def test_what_the_file_names_can_be_had_and_nothing_else(tmp_path: Path) -> None:
    url = ("roles: [cluster_manager, data]}", "roles: [cluster_manager, data], url: https://es-1.example:9200}")
    file = load_existing(written(tmp_path, (UNTIL, UNTIL + HOOKS), url)).written
    offers = PROVIDERS.on(offered.by(file), offered.ORDER, offered.NOT_YET)
    assert offers.chosen("node.kill").provider == "hooks"
    no_host, no_pod, no_hook, no_fis = offers.reasons("node.stop")
    assert "the file names no hosts" in no_host and no_hook == "the file names no hook for node.stop"
    assert "the file names no pods" in no_pod and "the file says nothing of AWS FIS" in no_fis


@pytest.mark.parametrize("kind", KINDS)
def test_through_one_address_only_a_dead_node_can_be_seen(tmp_path: Path, kind: str) -> None:
    file = target(tmp_path, ("node.kill", kind)).written
    why = offered.by(file)(f"{HOOK}{kind}")
    seen = kind in ("node.kill", "node.stop", "zone.power_loss")
    assert file.by_doors and (why is None if seen else "a url for each node" in str(why))


def test_a_program_that_is_not_here_or_may_not_be_executed_is_told(tmp_path: Path) -> None:
    made = target(tmp_path)
    program = tmp_path / "hooks" / "kill"
    (absent,) = compare.hooks(made)
    assert absent.sign is Sign.BLOCKS and absent.says == (
        "node.kill: there is no program ./hooks/kill that may be executed"
    )
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o644)
    assert next(compare.hooks(made)).sign is Sign.BLOCKS
    program.chmod(0o755)
    assert next(compare.hooks(made)).sign is Sign.SAME
    assert list(compare.hooks(load_existing(written(tmp_path)))) == []


def test_the_calls_are_the_keys_of_the_file() -> None:
    assert CALLS == ("inject", "in_effect", "undo", "gone")
