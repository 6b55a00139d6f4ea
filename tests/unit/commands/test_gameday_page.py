"""What is made of a firing that is over: node_exporter's file, and the page among those of earlier days."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from documents import WithDocuments
from unit.gamedays import test_day as days
from unit.gamedays.test_day import Firing, zone_day

from chaos.base.errors import Exit
from chaos.commands import gameday_page
from chaos.definitions.gameday import GameDayFile
from chaos.gamedays.board import day_id, hold_id
from chaos.gamedays.day import Ran
from chaos.gamedays.record import FILE, Record
from chaos.gamedays.textfile import parsed

approved, cluster, firing = days.approved, days.cluster, days.firing
SLOW = Ran(Exit.ABORTED, True, "r", "stopped", guard="stop_file", undone=900.0)


def fired(firing: Firing) -> Exit:
    """Fire it, and make of it what `gameday run` does."""
    code = firing.fire()
    gameday_page.finish(firing.day, firing.file.parent, code, on_hold=firing.made.on_hold)
    return code


def samples(file: Path) -> dict[str, float]:
    """``last_outcome`` by the one that it is."""
    found = parsed(file.read_text())
    return {labels.get("outcome", name): value for name, labels, value in found if "outcome" not in labels or value}


def recorded(firing: Firing, folder: Path) -> GameDayFile:
    """Its file, where records of the day are below this folder."""
    place = folder / "records"
    place.mkdir()
    (place / firing.day.name).symlink_to(folder)
    return firing.day.written.model_copy(update={"record": str(place)})


@pytest.fixture
def zone(tmp_path: Path, cluster: WithDocuments, approved: list[Any]) -> Firing:
    """A day with a drill, and a file for node_exporter."""
    made = zone_day(tmp_path, cluster)
    written = made.day.written.model_copy(update={"textfile": str(tmp_path / "x.prom")})
    made.day = made.hands.day = made.day.model_copy(update={"written": written})
    return made


def test_a_hold_is_told_to_node_exporter_until_it_is_cleared(zone: Firing, tmp_path: Path) -> None:
    file = tmp_path / "x.prom"
    assert fired(zone) is Exit.PASS
    assert samples(file).items() >= {"running": 0.0, "pass": 1.0, "held": 0.0}.items()
    zone.now += timedelta(days=7)
    zone.hands.drilled = SLOW
    assert fired(zone) is Exit.ABORTED and zone.lines("experiment.begin") == []
    assert samples(file).items() >= {"running": 0.0, "aborted": 1.0, "held": 1.0}.items()
    for _ in range(2):
        zone.now += timedelta(minutes=10)
        assert fired(zone) is Exit.HELD and samples(file)["held"] == 1.0
    del zone.cluster.documents[hold_id("staging")]  # gameday resume, on another machine
    zone.now += timedelta(minutes=10)
    assert fired(zone) is Exit.HELD and samples(file)["held"] == 0.0, "this day is over, and nothing is on hold"


def test_a_day_whose_runner_died_is_no_day_without_a_hold(zone: Firing, tmp_path: Path) -> None:
    file = tmp_path / "x.prom"
    assert fired(zone) is Exit.PASS and samples(file)["held"] == 0.0
    zone.now += timedelta(days=7)
    gameday_page.begun(zone.day, zone.now.timestamp())
    assert samples(file)["running"] == 1.0 and "held" not in samples(file)
    zone.cluster._keep(day_id("staging", "2026-12-03"), {"state": "under way", "host": "vm"})  # and it dies
    zone.now += timedelta(days=7)
    assert fired(zone) is Exit.HELD and samples(file)["held"] == 1.0


def test_a_firing_that_is_refused_leaves_the_file_to_the_one_that_is_under_way(zone: Firing, tmp_path: Path) -> None:
    file = tmp_path / "x.prom"
    with Record(tmp_path / "day-under-way" / FILE) as under_way, Record(tmp_path / "day-waiting" / FILE):
        under_way.add("lock.taken", token=1)
        gameday_page.begun(zone.day, zone.now.timestamp())
        told = file.read_text()
        zone.now += timedelta(hours=12)
        assert fired(zone) is Exit.USAGE and "window" in zone.refused[0]
        assert file.read_text() == told and samples(file)["running"] == 1.0
        gameday_page.resumed(zone.day.model_copy(update={"written": recorded(zone, tmp_path)}))
        assert file.read_text() == told
    with Record(tmp_path / "day-waiting-2" / FILE) as waiting:
        waiting.add("gate", name="window", ok=True)
        assert fired(zone) is Exit.USAGE and samples(file)["running"] == 0.0, "its runner has died"


def test_a_day_that_ends_tells_so_although_another_firing_has_just_taken_the_lock(zone: Firing, tmp_path: Path) -> None:
    with Record(tmp_path / "day-next" / FILE) as other:
        other.add("lock.taken", token=2)
        assert fired(zone) is Exit.PASS
    assert samples(tmp_path / "x.prom").items() >= {"running": 0.0, "pass": 1.0}.items()


def test_a_firing_that_finds_its_day_held_leaves_nothing_to_do_and_is_no_day_of_the_trend(
    zone: Firing, tmp_path: Path
) -> None:
    assert fired(zone) is Exit.PASS
    told = (tmp_path / "x.prom").read_text()
    zone.now += timedelta(minutes=30)
    assert fired(zone) is Exit.PASS and zone.lines("day.end")[0]["outcome"] == "held already"
    assert (tmp_path / "x.prom").read_text() == told, "the firing that holds it tells how it is"
    folder = zone.file.parent
    todo = (folder / "todo.md").read_text()
    assert "held already by another firing" in todo and "- [ ]" not in todo and "no end on record" not in todo
    assert "The day was held already:** staging of 2026-11-26 was held on" in todo
    page = (folder / "gameday.html").read_text()
    assert "no end on record" not in page and "planned and did not run" not in page
    with Record(tmp_path / "day-2-resumed" / FILE) as record:
        record.add("resumed", gameday="staging", by="ann", reason="it was looked at", cleared=["hold"])
    zone.now += timedelta(days=7)
    assert fired(zone) is Exit.PASS
    earlier = list(gameday_page._earlier(zone.file.parent))
    assert [[line["outcome"] for line in lines if line["kind"] == "day.end"] for lines in earlier] == [["pass"]]
    assert "no end on record" not in (zone.file.parent / "gameday.html").read_text()


def test_a_page_looks_back_on_days_however_often_each_was_fired(
    zone: Firing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gameday_page, "EARLIER", 2)
    assert fired(zone) is Exit.PASS
    for _ in range(3):
        assert fired(zone) is Exit.PASS
    zone.now += timedelta(days=7)
    assert fired(zone) is Exit.PASS
    page = (zone.file.parent / "gameday.html").read_text()
    assert "no end on record" not in page and "No earlier day of this game day" not in page
