"""Extras: what code asks for is what pyproject.toml has under that name, and the doctor says the same of it."""

from __future__ import annotations

import re
import tomllib

import pytest
from fakes import ROOT

from chaos.base import extras
from chaos.provision import doctor

DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", extras.EVERY, ids=lambda extra: extra.name)
def test_each_is_declared_with_the_packages_that_are_looked_for(extra: extras.Extra) -> None:
    declared = {re.split(r"[<>=\[ ]", each)[0] for each in DECLARED[extra.name]}
    assert set(extra.packages) <= declared
    assert extra.install == f"pip install 'opensearch-chaos[{extra.name}]'"


def test_one_without_its_packages_is_missing_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "bcrypt" else object())
    assert extras.SECURE.missing() == ["bcrypt"] and extras.AWS.missing() == []
    (said,) = doctor._certificates()
    assert (said.ok, said.remedy) == (False, extras.SECURE.install) and "cryptography and bcrypt" in said.found
