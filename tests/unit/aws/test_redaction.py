"""Evidence that leaves its owner has none of its owner's names, and still says what is about the same thing."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.aws.redaction import KINDS, OURS, Redaction

hexes = st.text("0123456789abcdef", min_size=8, max_size=17)
ec2_ids = st.builds("{}-{}".format, st.sampled_from(sorted(kind for kind in KINDS if kind.islower())), hexes)
fis_ids = st.builds(
    "{}{}".format, st.sampled_from(["EXP", "EXT"]), st.text("ABCdef0123456789", min_size=8, max_size=20)
)
accounts = st.text("0123456789", min_size=12, max_size=12)
users = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=12).map(lambda name: f"{name}.smith")
arns = st.one_of(
    st.builds("arn:aws:ec2:eu-west-1:{}:instance/{}".format, accounts, ec2_ids),
    st.builds("arn:aws:sts::{}:assumed-role/{}/{}".format, accounts, users, users),
    st.builds("arn:aws-us-gov:cloudwatch:us-gov-west-1:{}:alarm:{}".format, accounts, users),
    st.builds("arn:aws:fis:eu-west-1:{}:experiment/{}".format, accounts, fis_ids),
    st.builds("arn:aws:s3:::{}".format, users),
)
secrets = ec2_ids | fis_ids | accounts
around = st.sampled_from(["", "is {} there", "({})", "{}, and", '"{}"', "User: {} is not authorized", "a={}"])


@given(st.lists(st.tuples(secrets, around), max_size=6))
def test_no_id_stays(parts: list[tuple[str, str]]) -> None:
    redact = Redaction()
    for secret, words in parts:
        text = redact((words or "{}").format(secret))
        assert secret not in OURS.sub("", text), text
        assert OURS.search(text)


@given(arns)
def test_of_an_arn_only_what_it_is_of_stays(arn: str) -> None:
    text = Redaction()(f"User: {arn} may not")
    kept = arn.split(":")
    assert text.startswith(f"User: arn:{kept[1]}:{kept[2]}:{kept[3]}:") and text.endswith(" may not")
    assert "smith" not in text and not re.search("[0-9]{12}", text)


@given(st.lists(secrets, min_size=1, max_size=5), st.dictionaries(st.sampled_from("abc"), secrets))
def test_what_was_one_stays_one_and_what_were_two_stay_two(found: list[str], more: dict[str, str]) -> None:
    redact = Redaction()
    first = redact({"list": found, "map": more, "number": 3, "none": None})
    assert redact({"list": found, "map": more, "number": 3, "none": None}) == first
    assert len(set(first["list"])) == len(set(found))
    assert first["number"] == 3 and first["none"] is None and set(first["map"]) == set(more)


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:ssm:eu-west-1::document/AWSFIS-Run-Kill-Process",
        "aws:ec2:stop-instances",
        "2026-11-26T11:05:12Z",
        "11:05:12",
        "PT2M",
        "the experiment is stopped: 0 of 3",
        "AccessDeniedException",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert Redaction()(text) == text


@pytest.mark.parametrize("secret", ["AKIAIOSFODNN7EXAMPLE", "FwoGZXIvYXdzEJr" + "x" * 60])
def test_keys_go(secret: str) -> None:
    assert secret not in json.dumps(Redaction()({"message": f"by {secret} today"}))
