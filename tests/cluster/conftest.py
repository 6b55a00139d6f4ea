"""Real clusters for the integration tests: one that most tests share, and the command line as users call it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import boxkit
import pytest
from boxkit import Boxed
from clusterkit import DATA, ROOT, cli, end_all, kept_lab_id, nothing_left, tidy

from chaos.definitions import load_topology
from chaos.observe.proof import problems
from chaos.run.options import new_lab_id
from chaos.targets.labs import network, provisioning, traces
from chaos.targets.labs.local import LocalLab

FAILED = pytest.StashKey[bool]()


class Shared:
    """A lab that modules share: made for the first of them, made again where one left it unsound."""

    def __init__(self, up: Callable[[], LocalLab], down: Callable[[LocalLab], None]) -> None:
        self._up, self._down = up, down
        self._lab: LocalLab | None = None

    @property
    def there(self) -> bool:
        return self._lab is not None

    def sound(self) -> LocalLab:
        if self._lab is not None and problems(self._lab):
            self.away()
        if self._lab is None:
            self._lab = self._up()
        return self._lab

    def away(self) -> None:
        lab, self._lab = self._lab, None
        if lab is not None:
            self._down(lab)


def _playground_up() -> LocalLab:
    topology = load_topology("3az-standby", near=ROOT / "experiments" / "x.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        lab.up()
    except BaseException:
        lab.down()
        raise
    return lab


def _playground_down(lab: LocalLab) -> None:
    assert lab.down() == []


def _tiny_up() -> LocalLab:
    name = kept_lab_id()
    code, output = cli("lab", "up", DATA / "tiny.yaml", "--name", name)
    assert code == 0, output
    return LocalLab.attach(name)


def _tiny_down(lab: LocalLab) -> None:
    code, output = cli("lab", "down", lab.id)
    assert code == 0, output
    assert traces.of(lab.id) == []


SHARED = {"tiny": Shared(_tiny_up, _tiny_down), "playground": Shared(_playground_up, _playground_down)}
"""Fixture → its lab. It goes after the last test that asks for it: idle nodes cost the others processor time."""


def pytest_collection_modifyitems(items):
    places = [at for at, item in enumerate(items) if Path(__file__).parent in item.path.parents]
    mine = [items[at] for at in places]
    asked = {path: frozenset[str]() for path in {item.path for item in mine}}
    for item in mine:
        item.add_marker(pytest.mark.cluster)
        if os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root: network namespaces"))
        asked[item.path] |= SHARED.keys() & set(item.fixturenames)
    # the modules of one lab in a row, one that wants both between them
    turns = [{"tiny"}, {"tiny", "playground"}, {"playground"}, set()]
    for at, item in zip(places, sorted(mine, key=lambda item: turns.index(asked[item.path])), strict=True):
        items[at] = item


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    try:
        return (yield)
    finally:
        there = [name for name, shared in SHARED.items() if shared.there]
        if there:
            coming = item.session.items[item.session.items.index(item) + 1 :] if nextitem is not None else []
            wanted = {name for each in coming for name in getattr(each, "fixturenames", ())}
            for name in there:
                if name not in wanted:
                    SHARED[name].away()


@pytest.fixture(autouse=True)
def _no_run_goes_on() -> Iterator[None]:
    yield
    end_all()


@pytest.fixture(scope="session", autouse=True)
def machine() -> Iterator[None]:
    """Runs refuse to start over what a killed run of these tests left here; that is no fault of theirs."""
    if os.geteuid() == 0:
        tidy()
        boxkit.tidy()
    yield
    for shared in SHARED.values():
        shared.away()


@pytest.fixture(scope="module")
def playground() -> LocalLab:
    """The three-zone cluster with a standby zone that most tests share."""
    return SHARED["playground"].sound()


@pytest.fixture(scope="module")
def tiny() -> LocalLab:
    """A small lab of ``lab up``, which is to live on whatever happens to runs on it."""
    return SHARED["tiny"].sound()


@pytest.fixture(scope="module")
def boxed() -> Iterator[Boxed]:
    """A staging cluster in a box, of one module."""
    made = Boxed()
    code, output = made.does("up", timeout=600)
    try:
        assert code == 0, output
        yield made
    finally:
        code, output = made.does("down")
    assert code == 0, output
    assert boxkit.left(made.box.name) == []


@pytest.fixture
def before(boxed: Boxed, tmp_path: Path) -> Iterator[Path]:
    """A picture of all that is not ours; when the test is over nothing of it may be another, and no order lost."""
    assert boxed.does("mend") == (0, "")
    boxed.chaos("recover")  # of a test that failed, so that one failure does not make ten
    file = tmp_path / "before.json"
    assert boxed.picture(file)["of the suite"] == []
    yield file
    assert boxed.differs(file) == ""
    code, output = boxed.does("lost")
    assert code == 0, output


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where runs go; kept of a test that fails, as pytest keeps temporary folders."""
    folder = tmp_path / "reports"
    yield folder
    if not request.node.stash.get(FAILED, False):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def spotless() -> Iterator[None]:
    """Nothing was left before the test, and nothing is after it."""
    assert nothing_left() == []
    before = set(network.namespaces())
    yield
    assert nothing_left() == []
    assert set(network.namespaces()) <= before
