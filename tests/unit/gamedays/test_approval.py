"""Approvals, with the real ssh-keygen and real keys: what stands, and every way in which one does not."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signkit import CAPS, NODES, day_in, key, plan, public, ssh_keygen, wanted

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.definitions.gameday import GameDay
from chaos.gamedays import approval
from chaos.gamedays.approval import Approved, approve, changed, digest_of, in_words, standing, to_sign
from chaos.gamedays.record import canonical

NOW = datetime(2026, 11, 26, 9, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
NONCE = "0123456789abcdef" * 2


@dataclass(frozen=True)
class Team:
    """Alice and Bob may sign, Mallory may not."""

    folder: Path
    alice: Path
    bob: Path
    mallory: Path

    def allow(self, *lines: str) -> None:
        (self.folder / "allowed_signers").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def team(tmp_path: Path) -> Team:
    keys = tmp_path / "keys"
    keys.mkdir()
    it = Team(tmp_path, key(keys, "alice"), key(keys, "bob"), key(keys, "mallory"))
    it.allow("# who may", f"alice@example.com {public(it.alice)}", f"bob@example.com {public(it.bob)}")
    return it


def signed_by(day: GameDay, content: Mapping[str, Any], *keys: Path, now: datetime = NOW) -> Path:
    """Have each sign it; the statement's file."""
    for each in keys:
        file = approve(day, to_sign(day, content, now), each, now).statement
    return file


def refused(day: GameDay, content: Mapping[str, Any], now: datetime = LATER, used: tuple[str, ...] = ()) -> list[str]:
    """Why nothing stands."""
    found = standing(day, content, now, used)
    assert isinstance(found, list) and found, found
    assert all("\n" not in each for each in found)
    return found


# ---- what stands -----------------------------------------------------------------------------------------------


def test_one_person_approves_a_day_on_a_node(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    assert refused(day, content) == ["nobody has approved it: there is no folder approvals"]
    offer = to_sign(day, content, NOW, nonce=NONCE)
    assert offer.signed == () and not offer.file.exists()
    made = approve(day, offer, team.alice, NOW)
    assert (made.person, made.people, made.missing) == ("alice@example.com", ("alice@example.com",), 0)
    assert made.statement.name == f"{digest_of(content)[:12]}-{NONCE}.json"
    assert made.signature.name.startswith(f"{digest_of(content)[:12]}-{NONCE}.alice-example-com-")
    found = standing(day, content, LATER)
    assert isinstance(found, Approved)
    assert found.people == ("alice@example.com",) and found.keys[0].startswith("SHA256:")
    assert (found.digest, found.nonce, found.made) == (digest_of(content), NONCE, NOW)
    assert found.until == NOW + timedelta(days=7)


def test_two_people_approve_a_day_on_a_zone(team: Team) -> None:
    day = day_in(team.folder, rung="zone")
    content = wanted(day)
    first = approve(day, to_sign(day, content, NOW), team.alice, NOW)
    assert first.missing == 1
    assert refused(day, content)[0].endswith("2 different people must sign, and only alice@example.com did")
    offer = to_sign(day, content, LATER)
    assert offer.signed == ("alice@example.com",) and offer.file == first.statement
    second = approve(day, offer, team.bob, LATER)
    assert second.people == ("alice@example.com", "bob@example.com") and second.missing == 0
    found = standing(day, content, LATER)
    assert isinstance(found, Approved) and set(found.people) == {"alice@example.com", "bob@example.com"}


def test_signatures_on_two_statements_are_not_added_up(team: Team) -> None:
    day = day_in(team.folder, rung="zone")
    content = wanted(day)
    for nonce, who in (("a" * 32, team.alice), ("b" * 32, team.bob)):
        new = approval.statement(content, NOW, LATER + timedelta(days=1), nonce)
        approve(day, approval.Offer(new, team.folder / "approvals" / f"x-{nonce}.json", ()), who, NOW)
    reasons = refused(day, content)
    assert len(reasons) == 2 and all("2 different people must sign" in each for each in reasons)


def test_a_public_key_signs_where_its_other_half_lies_beside_it(team: Team) -> None:
    day = day_in(team.folder)
    made = approve(day, to_sign(day, wanted(day), NOW), team.alice.with_name("alice.pub"), NOW)
    assert made.person == "alice@example.com"


def test_a_certificate_counts_as_the_person_that_it_names(team: Team) -> None:
    authority = key(team.folder / "keys", "authority")
    ssh_keygen("-q", "-s", authority, "-I", "x", "-n", "carol@example.com", team.mallory.with_name("mallory.pub"))
    team.allow(f"*@example.com cert-authority {public(authority)}")
    day = day_in(team.folder)
    content = wanted(day)
    made = approve(day, to_sign(day, content, NOW), team.mallory.with_name("mallory-cert.pub"), NOW)
    assert made.person == "carol@example.com"
    found = standing(day, content, NOW)
    assert isinstance(found, Approved)
    plainly = subprocess.run(["ssh-keygen", "-l", "-f", team.mallory], capture_output=True, text=True, check=True)
    assert found.keys == (plainly.stdout.split()[1],)  # so a second certificate of a key is no second key


# ---- every refusal ---------------------------------------------------------------------------------------------


def test_an_approval_is_for_one_day(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    signed_by(day, content, team.alice)
    found = standing(day, content, LATER)
    assert isinstance(found, Approved)
    assert refused(day, content, used=(found.nonce,)) == [
        f"{found.file}: it was used already, and holds for one day only"
    ]
    offer = to_sign(day, content, LATER, used=(found.nonce,))
    assert offer.statement["nonce"] != found.nonce  # nobody is asked to sign what holds no more


def test_an_approval_ends(team: Team) -> None:
    day = day_in(team.folder, approval={"allowed_signers": "allowed_signers", "valid": "48h"})
    content = wanted(day)
    file = signed_by(day, content, team.alice)
    end = NOW + timedelta(hours=48)
    assert isinstance(standing(day, content, end - timedelta(seconds=1)), Approved)
    assert refused(day, content, end) == [f"{file.name}: it expired at 2026-11-28T09:00:00Z"]
    assert to_sign(day, content, end).signed == ()


def test_an_approval_of_tomorrow_is_none(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    signed_by(day, content, team.alice, now=LATER)
    assert "it says that it was made at 2026-11-27T09:00:00Z, which is yet to come" in refused(day, content, NOW)[0]


def test_nobody_signs_for_longer_than_the_file_allows(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    long = approval.statement(content, NOW, NOW + timedelta(days=700), NONCE)
    offer = approval.Offer(long, team.folder / "approvals" / "long.json", ())
    with pytest.raises(InvalidInput, match="longer than the 168h of the game day's file"):
        approve(day, offer, team.alice, NOW)
    forever = day_in(team.folder, approval={"allowed_signers": "allowed_signers", "valid": "17000h"})
    approve(forever, offer, team.alice, NOW)  # and one that came into the folder in another way is none
    assert "longer than the 168h of the game day's file" in refused(day, content)[0]


def test_a_stranger_signs_in_vain(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    with pytest.raises(InvalidInput, match=r"a stranger signed: the key SHA256:\S+ is of nobody in allowed_signers"):
        approve(day, to_sign(day, content, NOW), team.mallory, NOW)
    assert not (team.folder / "approvals").exists()  # nothing is left of it
    team.allow(f"mallory@example.com {public(team.mallory)}")
    signed_by(day, content, team.mallory)
    team.allow(f"alice@example.com {public(team.alice)}")  # no longer
    one, two = refused(day, content)
    assert "a stranger signed" in one and two.endswith("1 person must sign, and nobody did")


def test_a_key_has_its_own_time(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    team.allow(f'alice@example.com valid-before="20261127" {public(team.alice)}')
    signed_by(day, content, team.alice)
    assert isinstance(standing(day, content, NOW), Approved)
    assert "is not valid at this time, says allowed_signers" in refused(day, content, LATER + timedelta(days=1))[0]
    team.allow(f'alice@example.com valid-after="20261201" {public(team.alice)}')
    assert "is not valid at this time, says allowed_signers" in refused(day, content, NOW)[0]


def test_a_key_for_other_purposes_does_not_count(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    signed_by(day, content, team.alice)
    team.allow(f'alice@example.com namespaces="git" {public(team.alice)}')
    assert "key is not permitted for use in signature namespace" in refused(day, content)[0]


def test_a_signature_for_something_else_does_not_count(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    file = signed_by(day, content, team.alice)
    (old,) = file.parent.glob("*.sig")
    old.unlink()
    ssh_keygen("-Y", "sign", "-n", "git", "-f", team.alice, file)
    file.with_name(f"{file.name}.sig").rename(old)
    one, two = refused(day, content)
    assert "does not verify" in one and "namespace" in one and two.endswith("nobody did")


@pytest.mark.parametrize(
    "junk", [b"", b"junk", b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n", b"x" * (2 << 20)]
)
def test_what_is_no_signature_does_not_count(team: Team, junk: bytes) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    file = signed_by(day, content, team.alice)
    (signature,) = file.parent.glob("*.sig")
    signature.write_bytes(junk)
    one, two = refused(day, content)
    assert one.startswith(f"{file.name}: {signature.name}: ") and two.endswith("nobody did")
    again = approve(day, to_sign(day, content, NOW), team.alice, NOW)  # and does not stand in the way of a right one
    assert again.signature == signature and isinstance(standing(day, content, NOW), Approved)


def test_one_person_does_not_sign_twice(team: Team) -> None:
    day = day_in(team.folder, rung="zone")
    content = wanted(day)
    file = signed_by(day, content, team.alice)
    with pytest.raises(InvalidInput, match=r"nothing was approved: alice@example\.com signed twice"):
        signed_by(day, content, team.alice)
    assert len(list(file.parent.iterdir())) == 2
    shutil.copy(next(file.parent.glob("*.sig")), file.with_name(f"{file.stem}.again.sig"))
    assert any("alice@example.com signed twice, and one person counts once" in each for each in refused(day, content))


def test_two_keys_of_a_person_and_two_names_of_a_key_count_once(team: Team) -> None:
    day = day_in(team.folder, rung="zone")
    content = wanted(day)
    team.allow(f"alice@example.com {public(team.alice)}", f"Alice@Example.com {public(team.bob)}")
    signed_by(day, content, team.alice)
    with pytest.raises(InvalidInput, match="signed twice, and one person counts once"):
        signed_by(day, content, team.bob)
    team.allow(f"alice@example.com {public(team.alice)}", f"bob@example.com {public(team.bob)}")
    signed_by(day, content, team.bob)
    assert isinstance(standing(day, content, NOW), Approved)  # they are two
    team.allow(f"alice@example.com,bob@example.com {public(team.alice)}", f"bob@example.com {public(team.bob)}")
    assert any("one person counts once" in each for each in refused(day, content))  # and now perhaps one


def test_two_certificates_of_one_key_count_once(team: Team) -> None:
    authority = key(team.folder / "keys", "authority")
    team.allow(f"*@example.com cert-authority {public(authority)}")
    day = day_in(team.folder, rung="zone")
    content = wanted(day)
    pair = team.alice.with_name("alice.pub")
    ssh_keygen("-q", "-s", authority, "-I", "x", "-n", "carol@example.com", pair)
    signed_by(day, content, team.alice.with_name("alice-cert.pub"))
    ssh_keygen("-q", "-s", authority, "-I", "x", "-n", "dave@example.com", pair)
    with pytest.raises(InvalidInput, match=r"dave@example\.com signed with the key of carol@example\.com"):
        signed_by(day, content, team.alice.with_name("alice-cert.pub"))


def test_a_statement_that_was_edited_is_not_believed(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    file = signed_by(day, content, team.alice)
    said = json.loads(file.read_bytes())
    file.write_bytes(canonical({**said, "until": "2026-12-03T08:59:59Z"}))  # the same content, another end
    one, two = refused(day, content)
    assert "does not verify" in one and two.endswith("nobody did")
    file.write_bytes(json.dumps(said, indent=1).encode())
    assert refused(day, content) == [f"{file.name} is not as it was made: it was edited"]
    file.write_bytes(b'{"format":"' + b"[" * 100_000)
    assert refused(day, content) == [f"{file.name} is no statement of a game day"]
    file.write_bytes(b"{}" + b" " * approval.LARGEST_STATEMENT)
    assert refused(day, content) == [f"{file.name} cannot be read: it has more than {8 << 20} bytes"]


@pytest.mark.parametrize(
    ("now", "says"),
    [
        (lambda day: wanted(day, uuid="uuid-copy"), r"for another cluster: staging \(uuid-staging\)"),
        (
            lambda day: wanted(
                day, nodes={**{k: v for k, v in NODES.items() if k != "id-b-1"}, "id-new": NODES["id-b-1"]}
            ),
            "node es-b-1 was replaced: its id is id-new and was id-b-1",
        ),
        (
            lambda day: wanted(day, nodes={**NODES, "id-d-1": {"name": "es-d-1", "zone": "a"}}),
            "node es-d-1 is new",
        ),
        (lambda day: wanted(day, nodes=dict(list(NODES.items())[1:])), "node es-a-1 is not there any more"),
        (
            lambda day: wanted(day, nodes={**NODES, "id-a-1": {"name": "es-a-1", "zone": "b"}}),
            "node es-a-1 is in zone b and was in a",
        ),
        (lambda day: wanted(day, plan(digest="e" * 64)), "experiment zone-dark was edited"),
        (lambda day: wanted(day, plan("other")), "the experiments are other and were zone-dark"),
        (lambda day: wanted(day, plan(rung="zone")), "experiment zone-dark needs rung zone instead of node"),
        (
            lambda day: wanted(day, plan(reach=[{"phase": "dark", "hit": ["es-c-1"], "voteless": ["es-c-1"]}])),
            "experiment zone-dark hits at worst es-c-1, es-c-1 without a vote in phase dark, and hits at worst es-b-1",
        ),
        (
            lambda day: wanted(day, plan(steps=[{**plan()["steps"][0], "inverse": ["none"]}, *plan()["steps"][1:]])),
            "experiment zone-dark makes other moves in phase dark$",
        ),
        (
            lambda day: wanted(day, caps={**CAPS, "requests": "900/s"}),
            "the load was .* 200 requests per second at most and is .* 900 requests per second at most",
        ),
        (lambda day: wanted(day, caps=None), "at most and is none"),
        (lambda day: wanted(day_in(day.folder, bounds={"day": "61m"})), "its bounds are others"),
        (lambda day: wanted(day_in(day.folder, rung="zone")), "2 must sign instead of 1"),
        (
            lambda day: wanted(
                day_in(day.folder, guards={"users": {"counts": "outcome", "program": {"run": ["false"]}}})
            ),
            "not for this: the game day's guards.users.program.run is false and was true$",
        ),
    ],
)
def test_another_plan_is_named_by_what_differs(team: Team, now: Callable[[GameDay], dict[str, Any]], says: str) -> None:
    day = day_in(team.folder)
    file = signed_by(day, wanted(day), team.alice)
    (reason,) = refused(day, now(day))
    assert reason.startswith(f"{file.name} is not for this: ")
    assert re.search(says, reason), reason


def test_an_approval_of_an_older_version_covers_too_little_and_says_so(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    old = {key: value for key, value in content.items() if key != "decides"}
    offer = approval.Offer(
        approval.statement({**old, "format": "opensearch-chaos/approval/v1"}, NOW, LATER, NONCE),
        team.folder / "approvals" / "old.json",
        (),
    )
    approve(day, offer, team.alice, NOW)
    assert refused(day, content, NOW) == [
        "old.json was made by an older version and covers too little of the target and of the files that decide: "
        "have it approved anew (opensearch-chaos gameday approve)"
    ]


def test_the_folder_and_the_signers_must_be_readable(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    (team.folder / "approvals").write_text("a file")
    assert refused(day, content) == ["the folder approvals cannot be read: Not a directory"]
    with pytest.raises(InvalidInput, match="the folder approvals cannot be used: Not a directory"):
        to_sign(day, content, NOW)
    (team.folder / "approvals").unlink()
    (team.folder / "approvals").mkdir()
    assert refused(day, content) == ["nobody has approved it: there is no statement of staging-tuesday in approvals"]
    (team.folder / "allowed_signers").unlink()
    (reason,) = refused(day, content)
    assert reason.startswith("the allowed signers allowed_signers cannot be read: No such file or directory")


def test_statements_of_other_days_say_nothing(team: Team) -> None:
    day = day_in(team.folder)
    signed_by(day_in(team.folder, name="another"), wanted(day_in(team.folder, name="another")), team.alice)
    assert refused(day, wanted(day)) == [
        "nobody has approved it: there is no statement of staging-tuesday in approvals"
    ]


def test_without_ssh_keygen_nothing_is_approved(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    signed_by(day, content, team.alice)
    monkeypatch.setenv("PATH", str(team.folder))
    (reason,) = refused(day, content)
    assert reason.startswith("there is no ssh-keygen") and reason.endswith("install openssh-client")
    with pytest.raises(MissingPrerequisite):
        to_sign(day, content, NOW)


def test_an_ssh_keygen_that_always_agrees_is_not_enough(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 0 alone says nothing."""
    day = day_in(team.folder)
    content = wanted(day)
    signed_by(day, content, team.alice)
    (team.folder / "bin").mkdir()
    (team.folder / "bin" / "ssh-keygen").write_text("#!/bin/sh\nexit 0\n")
    (team.folder / "bin" / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{team.folder / 'bin'}:/usr/bin:/bin")
    assert "does not verify" in refused(day, content)[0]


def test_a_day_that_names_no_signers_is_never_approved_by_signatures(team: Team) -> None:
    ticket = {"url": "http://c.example/{change}", "state": "/s", "approved": ["ok"], "begins": "/b", "ends": "/e"}
    day = day_in(team.folder, approval={"ticket": {**ticket, "digest": "/d"}})
    assert "nobody may sign staging-tuesday" in refused(day, wanted(day))[0]


def test_no_key_and_a_key_that_is_none(team: Team) -> None:
    day = day_in(team.folder)
    offer = to_sign(day, wanted(day), NOW)
    with pytest.raises(InvalidInput, match="there is no key"):
        approve(day, offer, team.folder / "nowhere", NOW)
    (team.folder / "junk").write_text("no key")
    (team.folder / "junk").chmod(0o600)
    with pytest.raises(InvalidInput, match="ssh-keygen did not sign with"):
        approve(day, offer, team.folder / "junk", NOW)
    assert not (team.folder / "approvals").exists()


def test_what_was_read_is_what_is_signed(team: Team) -> None:
    day = day_in(team.folder, rung="zone")
    content = wanted(day)
    signed_by(day, content, team.alice)
    offer = to_sign(day, content, NOW)
    offer.file.write_bytes(canonical({**offer.statement, "people": 1}))
    with pytest.raises(InvalidInput, match="was changed meanwhile"):
        approve(day, offer, team.bob, NOW)


# ---- statement and words -----------------------------------------------------------------------------------------


def test_the_digest_is_of_all_but_nonce_and_times(team: Team) -> None:
    day = day_in(team.folder)
    content = wanted(day)
    one = approval.statement(content, NOW, LATER, "a" * 32)
    two = approval.statement(content, LATER, LATER, "b" * 32)
    assert one != two and digest_of(one) == digest_of(two) == digest_of(content)
    assert digest_of(content) == digest_of(json.loads(canonical(content)))
    with pytest.raises(ValueError, match="a nonce has"):
        approval.statement(content, NOW, LATER, "../../x")
    with pytest.raises(ValueError, match="2 plans for 1 experiments"):
        wanted(day, plan(), plan())


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in _places(each, (*path, key)))]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_change_of_the_content_is_another_digest_and_has_words(data: st.DataObject) -> None:
    content = wanted(day_in(Path("/nowhere"), rung="zone"), plan())
    other = json.loads(canonical(content))
    place = data.draw(st.sampled_from(_places(content)[1:]))
    inside = other
    for step in place[:-1]:
        inside = inside[step]
    new = data.draw(st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({"a": 1}))
    if inside[place[-1]] == new and type(inside[place[-1]]) is type(new):
        return
    inside[place[-1]] = new
    assert digest_of(other) != digest_of(content)
    assert changed(other, content)
    assert changed(content, content) == []


def test_what_a_person_reads_has_all_that_they_answer_for(team: Team) -> None:
    day = day_in(team.folder, rung="zone")
    shown = in_words(approval.statement(wanted(day), NOW, LATER, NONCE))
    first, _, rest = shown.partition("the target's file says:\n")
    files, _, last = rest.rpartition("signatures: ")
    assert first == (
        f"""game day staging-tuesday, for which team-search <search@example.com> answers
believed: nobody notices that a zone is gone
cluster: staging (uuid-staging)
when: tue, thu from 10:00 to 12:00 in Europe/Berlin
how long: 1h at most, and 2m to undo all once it is stopped
load of its own: 9 copies of shards, 10000 documents and 200 requests per second at most
nodes:
  es-a-1 in zone a, id id-a-1
  es-b-1 in zone b, id id-b-1
  es-c-1 in zone c, id id-c-1
experiment 1: zone-dark
  digest {"d" * 64}
  may reach as far as rung zone, and needs node
  where the cluster does not keep its promise: stop
  phase dark: hits at worst es-b-1
    inject network.black_hole: to es-b-1
      whom: es-b-1
      change: nft.drop es-b-1
      undone by: nft.undrop es-b-1
    hold for 2m
  phase after: hits at worst no node
    undo all
"""
    )
    assert "  prefix: oschaos-\n" in files and "  experiments.0.rung: zone\n" in files  # all of it: test_decided.py
    assert last == (
        f"""2 different people
made 2026-11-26T09:00:00Z, holds until 2026-11-27T09:00:00Z, for one day only (nonce {NONCE})
digest of all this: {digest_of(wanted(day))}
"""
    )


def test_names_of_others_cannot_move_the_terminal(team: Team) -> None:
    evil = "es\x1b[2J\n\u202ea"
    day = day_in(team.folder)
    content = wanted(day, plan(evil), nodes={"id\r": {"name": evil, "zone": "a"}})
    lines = in_words(approval.statement(content, NOW, LATER, NONCE)).splitlines()
    assert all(line.isprintable() for line in lines)
    assert "experiment 1: es?[2J??a" in lines
    assert all(each.isprintable() for each in changed(content, wanted(day)))
