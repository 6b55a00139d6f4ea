"""Files of certificate authorities of a whole day; the rest of asking.py is tested with who asks."""

from __future__ import annotations

from pathlib import Path

from calendarkit import gameday
from tlskit import authority

from chaos.gamedays.asking import wrong_authorities

GUARD = {"counts": "outcome", "above": 1}
TICKET = {"url": "https://c.example", "state": "/s", "approved": "ok", "begins": "/b", "ends": "/e", "digest": "/d"}


def test_every_file_of_whom_to_trust_is_looked_at(tmp_path: Path) -> None:
    def day(ca: str) -> list[str]:
        made = gameday(
            tmp_path,
            freezes=[{"yaml": "a.yaml"}, {"ics": "https://c.example/x", "ca": ca}, {"ics": "env:X", "ca": ca}],
            approval={"ticket": {**TICKET, "ca": ca}},
            guards={
                "prom": {**GUARD, "prometheus": {"url": "https://p.example", "query": "up", "access": {"ca": ca}}},
                "shop": {"counts": "blocking", "http": {"url": "https://s.example", "ca": ca}},
            },
            alerts={"prometheus": "https://p.example", "others": 0, "access": {"ca": ca}},
            announce=[{"slack": "env:SLACK", "ca": ca}],
        )
        return wrong_authorities(made)

    authority(tmp_path)
    (tmp_path / "text.pem").write_text("trust me\n")
    assert day("security/ca.pem") == []
    for wrong in ("nowhere.pem", "text.pem", "security"):
        found = day(wrong)
        assert [each.partition(": cannot use ")[0] for each in found] == [
            "freezes[1].ca",
            "freezes[2].ca",
            "approval.ticket.ca",
            "guards.prom.prometheus.access.ca",
            "guards.shop.http.ca",
            "alerts.access.ca",
            "announce[0].ca",
        ]
        assert all(f"{tmp_path / wrong} as CA certificates: " in each for each in found)
