"""Monitoring calls of a stream, on real nodes: each is answered whole and in the shape that it must have."""

from __future__ import annotations

import json

import pytest

from chaos.history.format import Outcome
from chaos.load import admin
from chaos.opensearch.views import administer, await_green
from chaos.targets.labs.local import LocalLab

INDEX = "monitored"


@pytest.mark.full
def test_each_call_is_answered_whole_and_in_its_shape(tiny: LocalLab) -> None:
    try:
        assert administer(tiny, "PUT", f"/{INDEX}", body={"settings": {"number_of_replicas": 0}})[0] == 200
        assert await_green(tiny, 60)[0]
        for name, call in admin.EVERY.items():
            status, answer = administer(tiny, "GET", call.path)
            assert status == 200 and admin.judge(call.path, json.dumps(answer)) is Outcome.OK, (name, str(answer)[:300])
    finally:
        administer(tiny, "DELETE", f"/{INDEX}?ignore_unavailable=true")
