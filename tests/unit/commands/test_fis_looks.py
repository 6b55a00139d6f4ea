"""``fis preflight``: each look says what it saw, and an endpoint that hangs costs one timeout."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.aws.policy import TAG
from chaos.base.errors import FaultError
from chaos.commands.fis import NO_ANSWER, looks
from chaos.targets.existing import fis_role

THERE: Any = SimpleNamespace(
    topology=SimpleNamespace(nodes=[SimpleNamespace(name="a-data"), SimpleNamespace(name="b")])
)


def instance(node: str, id: str, *tags: tuple[str, str], state: str = "running") -> SimpleNamespace:
    return SimpleNamespace(node=node, id=id, zone="a", state=state, tags=frozenset(tags))


class Fis:
    """AWS that answers at once; each question is counted. ``fails``: of these questions, with this error."""

    file = SimpleNamespace(account="123456789012", alarms=())
    target = "staging"

    def __init__(self, *, tags: tuple[tuple[str, str], ...] = (TAG,), fails: dict[str, str] | None = None) -> None:
        self.asked: list[str] = []
        self._fails = fails or {}
        self._found = {"a-data": instance("a-data", "i-1", TAG), "b": instance("b", "i-2", *tags)}

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if why := self._fails.get(what):
            raise FaultError(why)

    def call(self, service: str, operation: str, **_: Any) -> dict[str, Any]:
        self._ask("account")
        return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/x"}

    def lever(self) -> dict[str, str]:
        self._ask("lever")
        return {"status": "disengaged"}

    def alarms(self) -> list[Any]:
        self._ask("alarms")
        return []

    def instances(self, ask: Any, nodes: list[str]) -> dict[str, Any]:
        self._ask("instances")
        return {node: self._found[node] for node in nodes}

    def agents(self, ids: list[str]) -> set[str]:
        self._ask("agents")
        return set(ids)

    def left(self) -> list[str]:
        self._ask("left")
        return []


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked of IAM about FIS's role; its own tests are those of test_fis.py."""

    def trust(fis: Fis) -> tuple[str, bool]:
        fis._ask("role")
        return "it may be taken", True

    def lacking(fis: Fis, *_: Any) -> list[str]:
        fis._ask("rights")
        return []

    monkeypatch.setattr(fis_role, "trust", trust)
    monkeypatch.setattr(fis_role, "lacking", lacking)
    monkeypatch.setattr("chaos.aws.policy.wanted_for", lambda *_: None)


def seen(fis: Fis) -> dict[str, tuple[str, bool | None]]:
    return {what: (says, well) for what, says, well in looks(THERE, fis)}  # type: ignore[arg-type]


def test_all_is_well() -> None:
    found = seen(Fis())
    assert all(well for _, well in found.values()), found
    assert found["tags of instances"] == ("all have the tag chaos = allowed that the printed roles need", True)


@pytest.mark.parametrize("tags", [(), (("chaos", "forbidden"),), (("Chaos", "allowed"),)])
def test_an_instance_without_the_tag_that_the_printed_roles_need_is_named(tags: tuple[tuple[str, str], ...]) -> None:
    says, well = seen(Fis(tags=tags))["tags of instances"]
    assert not well and says == "i-2 of b has not the tag chaos = allowed that the printed roles need"


@pytest.mark.parametrize("words", NO_ANSWER)
def test_after_an_endpoint_that_does_not_answer_nothing_more_is_asked_of_it(words: str) -> None:
    fis = Fis(fails={"lever": f"{words} https://fis.eu-west-1.amazonaws.com"})
    found = seen(fis)
    assert fis.asked == ["account", "lever"]
    assert not any(well for what, (_, well) in found.items() if what != "account")
    assert found["left of earlier runs"][0].startswith(f"not asked: {words}") and len(found) == 9


def test_what_is_denied_hides_nothing_else() -> None:
    fis = Fis(fails={"lever": "fis GetSafetyLever: AccessDeniedException: not authorized"})
    found = seen(fis)
    assert [what for what, (_, well) in found.items() if not well] == ["safety lever"]
    of_instances = ["instances", "instances", "instances", "agents"]
    assert fis.asked == ["account", "lever", "alarms", *of_instances, "role", "instances", "rights", "left"]


def test_what_the_role_lacks_refuses_these_experiments_and_is_a_warning_for_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fis_role, "lacking", lambda *_: ["ec2:StopInstances (implicitDeny)"])
    for kinds, well in ((["node.stop"], False), (None, None)):
        found = {what: (says, well) for what, says, well in looks(THERE, Fis(), kinds)}  # type: ignore[arg-type]
        says, was = found["what FIS's role may do"]
        assert was is well and "it lacks ec2:StopInstances (implicitDeny)" in says
