"""The operators' consent, with the real ssh-keygen: a second party, and every way in which there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from documents import INDEX, WithDocuments
from signkit import day_in, key, public, target_in

from chaos.base.errors import InvalidInput
from chaos.definitions.gameday import GameDay
from chaos.gamedays import consent
from chaos.gamedays.approval import NAMESPACE, sign
from chaos.gamedays.board import CONSENT, Board
from chaos.gamedays.gate import Gate
from chaos.gamedays.record import canonical
from chaos.run.noted import Notes

NOW = datetime(2026, 11, 26, 9, 0, tzinfo=UTC)
UNTIL = date(2027, 1, 31)
SIGNED = {"allowed_signers": "operators"}


class Office:
    """The cluster's operators have ``ops``; ``runner`` is of the user that runs game days, with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ssh = folder, folder / "home" / ".ssh"
        self.ssh.mkdir(parents=True)
        (folder / "keys").mkdir()
        self.ops, self.mallory = key(folder / "keys", "ops"), key(folder / "keys", "mallory")
        self.runner = key(self.ssh, "id_ed25519")
        self.knows(self.ops)
        self.day = day_in(folder, consent=SIGNED)
        self.target = target_in(folder)
        self.cluster = WithDocuments()
        self.board = Board(self.cluster, INDEX)  # type: ignore[arg-type]
        self.board.make()

    def knows(self, *keys: Path) -> None:
        (self.folder / "operators").write_text("".join(f"ops@example.com {public(each)}\n" for each in keys))

    def said(self, *, target: Any = None, **changes: Any) -> dict[str, Any]:
        made = consent.statement([self.day.name], UNTIL, "team-platform", target or self.target, NOW)
        return {**made, **changes}

    def consents(self, who: Path | None = None, **changes: Any) -> dict[str, Any]:
        """A consent that is written to the cluster."""
        document = consent.signed(self.day, self.said(**changes), who or self.ops, NOW)
        self.board.put(CONSENT, document)
        return document

    def gate(self, day: GameDay | None = None) -> Gate:
        found = self.board.get(CONSENT)
        return consent.gate(found, day or self.day, self.target, NOW, NOW.date(), self.board)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return Office(tmp_path)


def test_a_key_of_the_operators_consents(office: Office) -> None:
    office.consents()
    gate = office.gate()
    assert gate.ok and gate.says.startswith(
        "team-platform consents until 2027-01-31, signed by ops@example.com (SHA256:"
    )
    assert "team-platform consents that the game days staging-tuesday be held on staging (uuid-staging)" in (
        consent.in_words(office.said())
    )


def test_what_the_runner_writes_itself_is_none(office: Office) -> None:
    """As it was found: who runs the day writes the document, and the gate passed."""
    office.board.put(CONSENT, {"gamedays": [office.day.name], "until": "2027-01-31", "by": "team-platform"})
    assert office.gate().says == (
        "the consent is not its operators': it is not signed, and whoever runs this may have written it"
    )
    old = office.gate(day_in(office.folder))  # a file of before, which says nothing of it
    assert not old.ok and old.says.startswith("the consent may be the runner's own")
    with pytest.raises(InvalidInput, match="a stranger signed"):
        office.consents(office.mallory)
    office.knows(office.mallory)
    office.consents(office.mallory)
    office.knows(office.ops)
    assert "a stranger signed" in office.gate().says


def test_a_key_that_the_runner_has_is_no_second_party(office: Office) -> None:
    office.knows(office.ops, office.runner)
    office.consents(office.runner)
    gate = office.gate()
    assert not gate.ok and gate.says.endswith("a key of the user that runs this: it is no second party")
    (office.ssh / "authorized_keys").write_text(f"{public(office.ops)}\n")  # who may log in is no key of its own
    office.consents(office.ops)
    assert office.gate().ok


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        while not socket.exists():
            assert process.poll() is None
            os.sched_yield()
        yield str(socket)
    finally:
        process.terminate()
        process.wait()


def test_nor_is_one_in_the_runner_s_agent(office: Office, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    office.consents()
    monkeypatch.setenv("SSH_AUTH_SOCK", agent)
    assert office.gate().ok
    subprocess.run(["ssh-add", "-q", str(office.ops)], check=True, stdin=subprocess.DEVNULL)
    assert "it is no second party" in office.gate().says


def test_every_word_of_it_is_signed(office: Office) -> None:
    document = office.consents()
    for change in (
        {"until": "2099-12-31"},
        {"gamedays": [office.day.name, "another"]},
        {"by": "somebody"},
        {"more": "than that"},
        {"signature": "junk"},
    ):
        office.board.put(CONSENT, {**document, **change})
        assert "the signature" in office.gate().says, change
    office.board.put(CONSENT, {**document, "format": "opensearch-chaos/consent/v0"})
    assert "of a form that is not known" in office.gate().says


def test_one_for_another_cluster_and_an_approval_are_none(office: Office) -> None:
    office.consents(target=target_in(office.folder, uuid="uuid-other"))
    assert office.gate().says.endswith("it is for the cluster staging (uuid-other), not for uuid-staging")
    said = office.said()
    of_approval = sign("ssh-keygen", office.ops, canonical(said), NAMESPACE).decode()
    office.board.put(CONSENT, {**said, "signature": of_approval})
    assert "namespace" in office.gate().says


def test_what_it_says_is_looked_at_first(office: Office) -> None:
    office.consents(until="2026-11-25")
    assert office.gate().says == "the consent of team-platform ended on 2026-11-25"
    office.board.remove(CONSENT)
    gate = office.gate()
    assert gate.says == "the cluster holds no consent of its operators"
    assert gate.remedy == (
        "its operators: opensearch-chaos gameday consent staging-tuesday.yaml --key KEY --until YYYY-MM-DD"
    )


# ---- by a role -------------------------------------------------------------------------------------------------


SECURITY = {"error": {"type": "security_exception", "reason": "no permissions for [indices:data/write/index]"}}
BLOCKED = {
    "error": {"type": "cluster_block_exception", "reason": "index [x] blocked by: [FORBIDDEN/8/index write (api)]"}
}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((403, SECURITY), None),
        ((401, SECURITY), None),
        (None, "the user that runs this may write .opensearch-chaos: whose consent is there nobody knows"),
        # whoever may write an index may block it, and then it looks like one that they may not
        (
            (403, BLOCKED),
            "it is not seen that security keeps this user from writing .opensearch-chaos (it answers 403,",
        ),
        ((403, "Forbidden, by a proxy"), "it is not seen that security keeps this user"),
        ((500, {}), "it is not seen that security keeps this user"),
    ],
)
def test_an_index_counts_that_the_runner_may_not_write(
    office: Office, answer: tuple[int, Any] | None, why: str | None
) -> None:
    """The question can change nothing: it is for a version that no document has."""
    day = day_in(office.folder, consent={"index": INDEX})
    office.board.put(CONSENT, {"gamedays": [day.name], "until": "2027-01-31", "by": "team-platform"})
    before = dict(office.cluster.documents)
    asked: list[str] = []

    def answers(method: str, path: str) -> tuple[int, Any] | None:
        if method != "PUT":
            return None
        asked.append(path)
        return answer

    office.cluster.lies = answers
    gate = office.gate(day)
    assert gate.ok is (why is None) and office.cluster.documents == before
    assert why is None or gate.says.startswith(why)
    assert asked == [f"/{INDEX}/_doc/{CONSENT}?if_seq_no={1 << 53}&if_primary_term=1"]


def test_where_it_is_looked_for(office: Office) -> None:
    own = day_in(office.folder, consent={"index": ".consents"})
    cluster: Any = office.cluster
    assert consent.board(own, cluster, INDEX).index == ".consents"
    assert consent.board(office.day, cluster, INDEX).index == INDEX


# ---- the notes index -------------------------------------------------------------------------------------------


def test_an_index_that_a_put_by_hand_made_is_told_from_one_of_ours(office: Office) -> None:
    assert office.board.unfit() is None
    office.cluster.indices[INDEX] = {"index.number_of_replicas": "1", "index.number_of_shards": "1"}
    assert office.board.unfit() == (
        ".opensearch-chaos was made by hand: it is not hidden and it has 1 replicas, and 2 are one copy in each zone "
        '(mend it: PUT /.opensearch-chaos/_settings {"index": {"hidden": true, "number_of_replicas": 2}})'
    )
    office.cluster.indices[INDEX] = {"index.hidden": "true", "index.auto_expand_replicas": "0-all"}
    assert Notes(office.cluster, INDEX).unfit() is None  # type: ignore[arg-type]
