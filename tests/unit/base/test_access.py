"""Secrets by reference, and what does not fit together."""

from __future__ import annotations

import base64
import json

import pytest

from chaos.base.access import PLAIN, Access, secret
from chaos.base.errors import InvalidInput


def test_plain_has_nothing() -> None:
    assert (PLAIN.scheme, PLAIN.headers(), PLAIN.context, PLAIN.to_json()) == ("http", {}, None, {})


def test_a_password_is_read_when_it_is_needed_and_never_written_down(monkeypatch, tmp_path) -> None:
    file = tmp_path / "password"
    for reference in ("env:SECRET_OF_TEST", f"file:{file}"):
        access = Access(tls=True, user="admin", password=reference)
        written = json.dumps(access.to_json()) + repr(access)
        monkeypatch.setenv("SECRET_OF_TEST", "öpen:sesame")
        file.write_text("öpen:sesame\n")
        assert base64.b64decode(access.headers()["authorization"].split()[1]).decode() == "admin:öpen:sesame"
        assert "sesame" not in written and Access.from_json(json.loads(json.dumps(access.to_json()))) == access


@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "a"},
        {"password": "env:X"},
        {"user": "a", "password": "hunter2"},
        {"tls": True, "key": "k.pem"},
        {"ca": "ca.pem"},
        {"verify": False},
        {"dates": False},
    ],
)
def test_what_does_not_fit_together_is_refused_without_telling_it(wrong) -> None:
    with pytest.raises(InvalidInput) as caught:
        Access(**wrong)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("reference", ["env:NO_SUCH_THING_HERE", "file:/no/such/file", "hunter2", "env:"])
def test_a_reference_to_nothing(reference) -> None:
    with pytest.raises(InvalidInput) as caught:
        secret(reference)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_certificate(tmp_path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("nothing")
    for access in (Access(tls=True, ca=str(bad)), Access(tls=True, certificate=str(tmp_path / "none.pem"))):
        with pytest.raises(InvalidInput, match="cannot use"):
            _ = access.context
    assert Access(tls=True, verify=False).context.verify_mode == 0
