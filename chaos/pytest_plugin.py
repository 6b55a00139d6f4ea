"""The pytest plugin: experiments as tests, and fixtures for experiments written in Python.

``pytest -m chaos`` collects ``experiments/**/*.yaml``: an experiment is a collector, each expectation an item. Nothing
is collected unless the marker ``chaos`` is positively selected, so plain ``pytest`` never starts a cluster. The run
happens when the first item of an experiment is set up. A weakness fails its item, a known weakness is an xfail, and
what could not be concluded is an *error*, never a skip. With ``--chaos-on FILE`` experiments run on a cluster that
exists: what it can never carry out is skipped, what is forbidden there today is a usage error. Without it
``-m "chaos and fis"`` runs on a lab with a stand-in for AWS FIS. Nothing heavy is imported before it is needed: this
module is loaded by every pytest of the environment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from _pytest.mark.expression import Expression

    from chaos.campaign.matrix import Cell
    from chaos.checks.models import FindingsFile
    from chaos.commands.campaign_cells import CampaignCells
    from chaos.commands.python_runs import OperationResult, PhaseResult
    from chaos.commands.running_on import Runs
    from chaos.definitions import Duration, Experiment, Topology
    from chaos.definitions.overriding import Override
    from chaos.faults.fault import Fault
    from chaos.run.execution import Execution
    from chaos.run.options import RunResult
    from chaos.run.pool import LabPool
    from chaos.run.retrying import Retries
    from chaos.targets.labs.base import BaseLab

MARKER = "chaos"
ON = "--chaos-on"
LAB = "local"
"""What labs are made of where nobody says."""
CAMPAIGN = "--chaos-campaign"
OF_LABS = ("--chaos-lab", "--chaos-opensearch-home", "--chaos-topology")
"""Options of which nothing would come on a cluster that exists."""
OBJECTIVE = "--chaos-objective"
SET = "--chaos-set"
RETRY = "--chaos-retry-inconclusive"
FAIL_ON_KNOWN = "--chaos-fail-on-known"
NOT_OF_CELLS = (ON, *OF_LABS, "--chaos-seed", "--chaos-experiments", OBJECTIVE, SET, RETRY)
"""Options of which nothing would come beside a campaign: its file says all of that."""
GOOD = "1s"
"""The objective of a load in a Python test that states none (docs/objectives.md)."""
SUFFIXES = (".yaml", ".yml")
EXPERIMENTS = "experiments"
CONTROL = "control"
"""Tag of planted weaknesses: they must fail, so they are collected only when this is selected as well."""
FIS = "fis"
"""Tag of experiments by AWS FIS, collected as those are: what a lab does itself says nothing of it."""


# ---- options and selection ------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaos", "chaos experiments on OpenSearch clusters")
    group.addoption("--chaos-out", default="reports", metavar="FOLDER", help="where run folders go (reports)")
    group.addoption("--chaos-seed", type=int, default=None, help="instead of each experiment's own seed")
    group.addoption("--chaos-topology", default=None, help="run every experiment on this topology")
    group.addoption(
        "--chaos-experiments", default=None, metavar="FOLDER", help=f"where experiments are ({EXPERIMENTS})"
    )
    group.addoption(
        ON,
        default=None,
        metavar="FILE",
        help="run every experiment on the cluster of this file, which exists, instead of on labs",
    )
    group.addoption(
        CAMPAIGN,
        default=None,
        metavar="FILE",
        help="run the cells of this campaign, through its store: what is committed already is not run again",
    )
    group.addoption(
        "--chaos-lab",
        default=None,
        help=f"what labs are made of: {LAB} (default), docker, or one that another package brings",
    )
    group.addoption("--chaos-opensearch-home", default=None, metavar="PATH", help="use this OpenSearch")
    group.addoption(
        OBJECTIVE,
        action="append",
        default=[],
        metavar="[OP=]DURATION",
        help="what is good, instead of what each experiment says: read=100ms, write=1s, or 100ms for both",
    )
    group.addoption(
        SET,
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="a value instead of what each experiment's file says, by its path: load.write.rate=50/s",
    )
    group.addoption(
        RETRY,
        default=None,
        metavar="DURATION",
        help="run an experiment that ends inconclusive once more; all such runs may take so long together",
    )
    group.addoption(
        FAIL_ON_KNOWN,
        action="store_true",
        default=False,
        help="a known weakness fails, instead of being an expected failure",
    )


def _expression(config: pytest.Config) -> Expression | None:
    from _pytest.mark.expression import Expression

    text = config.getoption("markexpr", "") or ""
    if not text:
        return None
    try:
        return Expression.compile(text)
    except Exception:  # pytest itself says what is wrong with it
        return None


def _selects(expression: Expression | None, name: str, others: frozenset[str] = frozenset()) -> bool:
    """True when the expression holds with ``name`` and would not without it."""
    if expression is None:
        return False

    return _holds(expression, others | {name}) and not _holds(expression, others)


def _holds(expression: Expression, names: frozenset[str]) -> bool:
    def named(wanted: str, /, **_: str | int | bool | None) -> bool:
        return wanted in names

    return bool(expression.evaluate(named))


def asks_for_chaos(config: pytest.Config) -> bool:
    """True when ``-m`` asks for chaos at all, with whatever tags."""
    expression = _expression(config)
    if expression is None:
        return False
    # read from the text: an expression that is evaluated asks only as far as it must ("smoke or chaos")
    asked = frozenset(re.findall(r"[\w:+\-.\[\]\\/]+", config.getoption("markexpr"))) - {"and", "or", "not"}
    return MARKER in asked and (_selects(expression, MARKER) or _selects(expression, MARKER, asked - {MARKER}))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}: runs on a real cluster that is broken on purpose")
    config.addinivalue_line("markers", "topology(name): the topology of the fixture `lab`")
    if not asks_for_chaos(config):
        for option in (ON, CAMPAIGN):
            if config.getoption(option) is not None:
                raise pytest.UsageError(f"{option}: no experiment is asked for; add -m {MARKER}")
        return
    if config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        raise pytest.UsageError("chaos runs cannot share a machine: run them without xdist (-n)")
    if config.getoption(CAMPAIGN) is not None:
        _read_campaign(config)
        return
    _read_options(config)
    _refuse_options(config)
    folder = config.rootpath / _experiments(config)
    if config.args_source is not pytest.Config.ArgsSource.ARGS and folder.is_dir():
        config.args = [*config.args, str(folder)]


def _read_campaign(config: pytest.Config) -> None:
    """Its cells are all that is collected, also beside other arguments."""
    from chaos.base.errors import InvalidInput

    if given := [option for option in NOT_OF_CELLS if config.getoption(option) not in (None, [])]:
        raise pytest.UsageError(f"{' and '.join(given)}: the campaign's file says what is run; leave it out")
    file = Path(config.getoption(CAMPAIGN)).resolve()
    try:
        from chaos.commands.campaign_cells import CampaignCells

        config.stash[_CAMPAIGN] = CampaignCells(file, lambda text: _say(config, f"chaos: {text}"))
    except InvalidInput as error:
        raise pytest.UsageError(f"{CAMPAIGN}: {error}") from None
    config.args = [str(file)]


def _read_options(config: pytest.Config) -> None:
    """What is wrong with an option is said before anything is collected."""
    objective, retry, given = config.getoption(OBJECTIVE), config.getoption(RETRY), config.getoption(SET)
    if not objective and retry is None and not given:
        return  # so that whoever only collects loads nothing of ours
    from chaos.base.errors import InvalidInput
    from chaos.definitions import objectives, overriding

    try:
        from chaos.registry import GRAMMAR  # raises for another package that is broken
        from chaos.run.retrying import Retries

        config.stash[_OBJECTIVES] = objectives.parse(objective, GRAMMAR.operations, OBJECTIVE)
        overrides = overriding.parse(given, SET)
        beside = (("--chaos-seed", overriding.SEED), ("--chaos-topology", "topology"))
        overriding.refuse_beside(overrides, *((name, path, config.getoption(name)) for name, path in beside))
        if config.getoption(ON):
            overriding.refuse_topology(overrides)
        config.stash[_OVERRIDES] = overrides
        if retry is not None:
            config.stash[_RETRIES] = Retries.parse(retry, RETRY)
    except InvalidInput as error:
        raise pytest.UsageError(str(error)) from None


def _experiments(config: pytest.Config) -> Path:
    """The folder of experiments, which need not be there unless the option names it."""
    return Path(config.getoption("--chaos-experiments") or EXPERIMENTS)


def _refuse_options(config: pytest.Config) -> None:
    """Raises UsageError for an option that asks for what is not there, before anything is collected."""
    from chaos.base.errors import InvalidInput
    from chaos.definitions import load_topology
    from chaos.targets.labs import kinds

    folder = config.rootpath / _experiments(config)
    if config.getoption("--chaos-experiments") is not None:
        if not folder.is_dir():
            raise pytest.UsageError(f"--chaos-experiments: there is no folder {folder}")
        if not any(_is_experiment(file) for file in folder.rglob("*") if file.suffix in SUFFIXES):
            raise pytest.UsageError(f"--chaos-experiments: there is no experiment in {folder}")
    seed, topology = config.getoption("--chaos-seed"), config.getoption("--chaos-topology")
    if seed is not None and seed < 0:
        raise pytest.UsageError(f"--chaos-seed {seed}: expected 0 or more")
    if config.getoption(ON) is not None:
        _refuse_with_on(config)
        return
    home = config.getoption("--chaos-opensearch-home")
    try:
        kinds.named(_kind(config))
    except InvalidInput as error:
        raise pytest.UsageError(f"--chaos-lab: {error}") from None
    try:
        kinds.refuse_home(_kind(config), Path(home) if home else None)
        if topology is not None:
            near = [Path(arg.partition("::")[0]) for arg in config.args]
            _any_of([folder / "any.yaml", *near], lambda file: load_topology(topology, near=file))
    except InvalidInput as error:
        raise pytest.UsageError(str(error)) from None


def _kind(config: pytest.Config) -> str:
    """What labs are made of."""
    given = config.getoption("--chaos-lab")
    return LAB if given is None else str(given)


def _refuse_with_on(config: pytest.Config) -> None:
    """Raises UsageError for a file that says no cluster, and for options that mean nothing there."""
    from chaos.base.errors import InvalidInput
    from chaos.commands.running_on import Runs
    from chaos.definitions.existing import load_existing

    given = [option for option in OF_LABS if config.getoption(option) is not None]
    if given:
        raise pytest.UsageError(f"{' and '.join(given)}: of labs, and {ON} is for a cluster that exists; leave one out")
    if config.getoption(RETRY) is not None:
        raise pytest.UsageError(f"{RETRY}: on a cluster that exists each experiment runs once; leave it out")
    file = Path(config.getoption(ON))
    try:
        load_existing(file)
    except InvalidInput as error:
        raise pytest.UsageError(f"{ON}: {error}") from None
    config.stash[_ON] = Runs(file, Path(config.getoption("--chaos-out")), config.getoption("--chaos-seed"))


def _with_objectives(config: pytest.Config, experiment: Experiment) -> Experiment:
    """Raises InvalidInput for an operation that its load does not have."""
    from chaos.definitions import objectives

    return objectives.override(experiment, config.stash.get(_OBJECTIVES, {}), OBJECTIVE)


def _any_of(files: list[Path], do: Callable[[Path], object]) -> None:
    """Raises the first file's InvalidInput when it can be done for none."""
    from chaos.base.errors import InvalidInput

    first: InvalidInput | None = None
    for file in files:
        try:
            do(file)
            return
        except InvalidInput as error:
            first = first or error
    if first is not None:
        raise first


def pytest_collection_finish(session: pytest.Session) -> None:
    """All runs that are to come must find room for their records before the first of them begins."""
    from chaos.base.errors import InvalidInput
    from chaos.run import space

    config = session.config
    if config.getoption("collectonly", False):
        return
    experiments = {item.path: item.experiment for item in session.items if isinstance(item, ExpectationItem)}
    in_python = [item for item in session.items if MARKER in item.keywords and not isinstance(item, ExpectationItem)]
    if config.getoption(SET) and any(item.get_closest_marker(MARKER) for item in in_python):
        raise pytest.UsageError(f"{SET}: of experiments' files, and {in_python[0].nodeid} is a test in Python")
    if _ON in config.stash:
        broken = session.testsfailed and not config.getoption("continue_on_collection_errors", False)
        if session.items and not broken:  # else pytest says itself what is wrong, and runs nothing
            _refuse_there(config, experiments)
        return
    if not experiments:
        return
    if any(FIS in each.tags for each in experiments.values()):
        _stand_in(config, experiments)
        _refuse_there(config, experiments)
        return
    out, kind = Path(config.getoption("--chaos-out")), _kind(config)
    try:
        space.refuse_scarce(space.wanted(list(experiments.values()), out, kind=kind))
    except InvalidInput as error:
        raise pytest.UsageError(str(error)) from None


def _stand_in(config: pytest.Config, experiments: Mapping[Path, Experiment]) -> None:
    """What passes for AWS FIS, before a lab, until the session ends."""
    from chaos.base.errors import ChaosError
    from chaos.commands.fis_lab import fis_lab
    from chaos.commands.running_on import Runs

    if others := [each.name for each in experiments.values() if FIS not in each.tags]:
        raise pytest.UsageError(f"{', '.join(others)} by a stand-in for AWS FIS: ask for {FIS} alone, or for {ON} FILE")
    if given := [option for option in (*OF_LABS, RETRY) if config.getoption(option) is not None]:
        raise pytest.UsageError(f"{' and '.join(given)}: the lab before which AWS FIS stands in is what it is")
    _say(config, f"chaos: {FIS}: on a lab with a stand-in for AWS FIS, which shows nothing about AWS; else {ON} FILE")
    stack = config.stash[_STANDING] = ExitStack()
    try:
        file = stack.enter_context(fis_lab())
    except ChaosError as error:
        raise pytest.UsageError(f"{FIS}: {error}") from None
    config.stash[_ON] = Runs(file, Path(config.getoption("--chaos-out")), config.getoption("--chaos-seed"))


def _refuse_there(config: pytest.Config, experiments: Mapping[Path, Experiment]) -> None:
    """What forbids one of them on the cluster of ``--chaos-on`` is said before the first begins.

    Those that can never be there are skipped, as those are that a lab lacks something for.
    """
    from chaos.base.errors import ChaosError

    there = config.stash[_ON]
    if not experiments:
        raise pytest.UsageError(f"{ON} {there.file}: no experiment is selected, and tests in Python run on labs alone")
    try:
        whys = dict(zip(experiments, there.ready(list(experiments.values())), strict=True))
    except ChaosError as error:
        raise pytest.UsageError(f"{ON}: {error}") from None
    config.stash[_NEVER] = {path: why for path, why in whys.items() if why is not None}
    count = f"{len(whys) - len(config.stash[_NEVER])} of {len(whys)} experiments can run there"
    _say(config, f"chaos: {ON} {there.file}: {count}{', the others are skipped' if config.stash[_NEVER] else ''}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix not in SUFFIXES or not asks_for_chaos(parent.config):
        return None
    if _CAMPAIGN in parent.config.stash:
        is_it = file_path.resolve() == parent.config.stash[_CAMPAIGN].file
        return CampaignFile.from_parent(parent, path=file_path) if is_it else None
    if not _is_asked_for(file_path, parent.config) or not _is_experiment(file_path):
        return None
    return ExperimentFile.from_parent(parent, path=file_path)


def _is_asked_for(file: Path, config: pytest.Config) -> bool:
    """In the experiments' folder, in any folder of that name, or named on the command line itself."""
    folder = _experiments(config)
    if (config.rootpath / folder).resolve() in file.resolve().parents or folder.name in file.parent.parts:
        return True
    return _is_named(file, config)


def _is_named(file: Path, config: pytest.Config) -> bool:
    """On the command line itself."""
    return any(Path(arg.partition("::")[0]).resolve() == file.resolve() for arg in config.args)


_OURS = re.compile(r"^[\"']?apiVersion[\"']?\s*:\s*[\"']?opensearch-chaos/", re.MULTILINE)
_KIND = re.compile(r"^[\"']?kind[\"']?\s*:\s*[\"']?([\w-]*)", re.MULTILINE)
_SHAPE = tuple(re.compile(rf"^[\"']?{key}[\"']?\s*:", re.MULTILINE) for key in ("phases", "expect"))


def _is_experiment(path: Path) -> bool:
    """Whether a file is an experiment, or was to be one: what is wrong with it is then a collection error.

    The text only rules out what is foreign; the kind is what the data says, as for every command.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return path.is_file()
    # of UTF-16, which is refused later, as much as tells whose it is
    text = content.replace(b"\0", b"").decode(errors="replace").lstrip("\ufeff\ufffd")
    if "opensearch-chaos/" not in text and not all(each.search(text) for each in _SHAPE):
        return False
    ours, said = _OURS.search(text), _KIND.search(text)
    if ours and not said:
        return True
    from chaos.base.errors import InvalidInput
    from chaos.definitions.loading import KINDS
    from chaos.definitions.source import Source

    try:
        kind = Source.read(path).data.get("kind", "experiment")
    except InvalidInput:
        kind = said[1] if said else "experiment"
    return kind == "experiment" or (ours is not None and kind not in KINDS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave chaos out unless it is asked for; experiments of one topology one after the other, to share a lab."""
    if not asks_for_chaos(config):
        left_out = [item for item in items if item.get_closest_marker(MARKER)]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker(MARKER)]
        return
    if _ON in config.stash or _CAMPAIGN in config.stash:
        return  # there are no labs to share, and they run in the order in which they are named
    order: dict[str, int] = {}
    for item in items:
        if isinstance(item, ExpectationItem):
            order.setdefault(item.experiment.topology.name, len(order))
    chaos = iter(
        sorted(
            (item for item in items if isinstance(item, ExpectationItem)),
            key=lambda item: order[item.experiment.topology.name],
        )
    )
    items[:] = [next(chaos) if isinstance(item, ExpectationItem) else item for item in items]


# ---- experiments as collectors --------------------------------------------------------------------------


class ExperimentFile(pytest.File):
    """One experiment file."""

    experiment: Experiment
    first: RunResult | None = None
    """Of two runs the first, which was inconclusive; None when there was but one."""
    _result: RunResult | Exception | None = None

    def collect(self) -> Iterator[pytest.Item]:
        from chaos.base.errors import InvalidInput
        from chaos.definitions import vary
        from chaos.definitions.source import Source

        try:
            if vary.KEY in Source.read(self.path).data:
                self._leave_out(f"{self.path}: it has sides (vary), whose runs are made by: opensearch-chaos run")
                return
            from chaos.registry import load_experiment  # raises for another package that is broken

            self.experiment = load_experiment(self.path, topology=self.config.getoption("--chaos-topology"))
        except InvalidInput as error:
            raise self.CollectError(str(error)) from None
        yield from self._items()

    def _leave_out(self, says: str) -> None:
        """Say that it is not collected: as an error where it is named itself."""
        if _is_named(self.path, self.config):
            raise self.CollectError(says)
        _say(self.config, f"chaos: not collected: {says}")

    def _items(self) -> Iterator[pytest.Item]:
        """One for each expectation in each phase and one for the run, where its tags are selected."""
        from chaos.base.errors import InvalidInput

        expression = _expression(self.config)
        tags = frozenset(self.experiment.tags)
        for tag in sorted(tags):
            self.config.addinivalue_line("markers", f"{tag}: a tag of chaos experiments")
        if expression is None or not _holds(expression, tags | {MARKER}):
            return
        for tag in tags & {CONTROL, FIS}:
            if not _selects(expression, tag, (tags | {MARKER}) - {tag}):
                return
        try:
            self.experiment = _with_objectives(self.config, self._with_overrides())
        except InvalidInput as error:
            raise self.CollectError(str(error)) from None
        names: dict[str, int] = {}
        for expectation in self.experiment.expect:
            for phase in expectation.phases or (None,):
                id = expectation.metric + (f"@{phase}" if phase else "")
                names[id] = names.get(id, 0) + 1
                yield ExpectationItem.from_parent(
                    self,
                    name=expectation.text + (f" in {phase}" if phase else ""),
                    experiment=self.experiment,
                    finding=id if names[id] == 1 else f"{id}#{names[id]}",
                )
        yield ExpectationItem.from_parent(
            self, name="the run itself is valid and clean", experiment=self.experiment, finding=None
        )

    def _with_overrides(self) -> Experiment:
        """The experiment with the values that an option gave; read again, as each is held to what a file is held to."""
        from chaos.registry import load_experiment

        given = self.config.stash.get(_OVERRIDES, ())
        if not given:
            return self.experiment
        return load_experiment(self.path, topology=self.config.getoption("--chaos-topology"), overrides=given)

    def result(self) -> RunResult:
        """Run the experiment once, or once more if that was inconclusive and the option says so.

        The same result, or error, for each of its items: that of the last run.
        """
        from chaos.base.errors import Lacking

        if self._result is None:
            _exit_after_a_signal(self.config)
            if (why := self.config.stash.get(_NEVER, {}).get(self.path)) is not None:
                pytest.skip(why)
            try:
                self._result = self._runs()
            except Exception as error:
                self._result = error
        if isinstance(self._result, Lacking):
            pytest.skip(str(self._result))
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def _runs(self) -> RunResult:
        from chaos.report import announce
        from chaos.run import retrying

        def one(second_of: dict[str, Any] | None) -> RunResult:
            return _run(self.config, self.experiment, *([second_of] if second_of else []))

        def says(text: str) -> None:
            _say(self.config, f"chaos: {text}")

        retries = self.config.stash.get(_RETRIES, None)
        result = None
        for result in retrying.runs(self.experiment.name, one, retries, says):
            self.config.stash[_STOPPED] = result.stopped
            for line in announce(result.folder, result.findings):
                _say(self.config, line)
            if self.first is None:
                self.first = result
        assert result is not None and self.first is not None
        if result is self.first:
            self.first = None
        self.config.stash.setdefault(_VERDICTS, {})[self.experiment.name] = result.findings
        return result


class CampaignFile(pytest.File):
    """A campaign, whose cells are collected as experiments are."""

    def collect(self) -> Iterator[pytest.Collector]:
        for cell in self.config.stash[_CAMPAIGN].cells:
            made = CellFile.from_parent(
                self, path=Path(cell.experiment.file), name=cell.name, nodeid=f"{self.nodeid}::{cell.name}"
            )
            made.cell, made.experiment = cell, cell.experiment
            yield made


class CellFile(ExperimentFile):
    """One cell of a campaign."""

    cell: Cell

    def collect(self) -> Iterator[pytest.Item]:
        yield from self._items()

    def _runs(self) -> RunResult:
        from chaos.base.errors import Aborted

        try:
            result = self.config.stash[_CAMPAIGN].result(self.cell)
        except Aborted:
            self.config.stash[_STOPPED] = True
            raise
        self.config.stash.setdefault(_VERDICTS, {})[self.cell.name] = result.findings
        return result


class Inconclusive(Exception):
    """Nothing can be said: shown as an error, because it is neither a pass nor the cluster's failure."""


class Weakness(Exception):
    """An expectation that the cluster did not meet."""


class ExpectationItem(pytest.Item):
    """One expectation in one phase. ``finding`` None: the run as a whole."""

    def __init__(self, *, experiment: Experiment, finding: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.experiment = experiment
        self.finding = finding
        self.add_marker(MARKER)
        for tag in experiment.tags:
            self.add_marker(tag)

    def setup(self) -> None:
        assert isinstance(self.parent, ExperimentFile)
        result = self.parent.result()
        self.user_properties.append(("report", str(result.folder / "report.html")))
        if self.parent.first is not None:
            said = f"{self.parent.first.folder.name} was inconclusive: {self.parent.first.findings.get('summary')}"
            self.user_properties.append(("second of two runs; the first", said))
        if self.finding is None:
            return
        found = self._found()
        if found["counts_as"] == "inconclusive":
            raise Inconclusive(f"{found['title']}: {found['measured_text']}; {found['says']}")

    def _found(self) -> dict[str, Any]:
        assert isinstance(self.parent, ExperimentFile)
        for finding in self.parent.result().findings["findings"]:
            if finding["id"] == self.finding:
                return dict(finding)
        raise Inconclusive(f"the run's findings say nothing of {self.finding}")

    def runtest(self) -> None:
        assert isinstance(self.parent, ExperimentFile)
        result = self.parent.result()
        if self.finding is None:
            self._refuse_the_run(result)
            return
        from chaos.checks.shown import CLEAR

        found = self._found()
        if found["counts_as"] in self._well and all(item.finding is not None for item in self._siblings):
            self._refuse_the_run(result)  # its own item is left out (-k, --lf), so each of the others stands for it
        if found["counts_as"] == "known_weakness":
            if self.config.getoption(FAIL_ON_KNOWN):
                says = f"{found['title']}: {found['measured_text']}, a known weakness ({found['known_weakness']})"
                raise Weakness(f"{says}; it fails because of {FAIL_ON_KNOWN}")
            bound = found.get("known_bound") or "unbounded"
            pytest.xfail(f"known weakness ({bound}): {found['known_weakness']}; measured {found['measured_text']}")
        if found["counts_as"] == "relaxed":
            pytest.xfail(f"relaxed, because {found.get('relaxed')}; measured {found['measured_text']}")
        if found["counts_as"] == "unexpected_pass":
            raise Weakness(
                f"improved: {found['title']}: {found['measured_text']} passes, but its file calls it a known weakness "
                f"({found['known_weakness']}): {CLEAR}"
            )
        if found["counts_as"] not in ("pass", "relaxed"):
            raise Weakness(f"{found['title']}: {found['measured_text']} ({found['says']})")

    @property
    def _siblings(self) -> list[ExpectationItem]:
        """The items of its experiment that are selected, itself among them."""
        return [item for item in self.session.items if isinstance(item, ExpectationItem) and item.parent is self.parent]

    @property
    def _well(self) -> frozenset[str]:
        """As what a finding may count that fails nothing."""
        known = frozenset() if self.config.getoption(FAIL_ON_KNOWN) else frozenset({"known_weakness"})
        return known | {"pass", "relaxed"}

    def _refuse_the_run(self, result: RunResult) -> None:
        """Raise for everything that keeps the run from passing and that no other item of it shows.

        Reasons without a finding are among it: documents that nobody wrote, a process that ended, no read-back.
        """
        from chaos.checks import plainly

        findings = result.findings
        named = {item.finding for item in self._siblings if item.finding is not None}
        if not result.clean:
            raise Weakness("the clean-up failed: run opensearch-chaos recover")
        if findings["outcome"] in ("error", "aborted"):
            raise Inconclusive(f"{findings['outcome']}: {findings['summary']}")
        bad = [each for each in findings["findings"] if each["counts_as"] not in self._well]
        rest = [each for each in bad if each["id"] not in named]
        reasons = [each for each in findings.get("reasons") or () if each.get("finding") is None]
        says = [f"{each['title']}: {each['measured_text']} ({each['says']})" for each in rest]
        says += [plainly.reason(each, findings["findings"], findings.get("tables") or {}) for each in reasons]
        ways = {*(each["counts_as"] for each in rest), *(each["outcome"] for each in reasons)}
        if not bad and not says and findings["outcome"] != "pass":
            says, ways = [str(findings["headline"])], {findings["outcome"]}
        if says:
            raise (Inconclusive if ways == {"inconclusive"} else Weakness)("; ".join(dict.fromkeys(says)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from chaos.base.errors import ChaosError

        if isinstance(excinfo.value, Weakness | Inconclusive | ChaosError):
            text = str(excinfo.value)
            parent = self.parent
            if isinstance(parent, ExperimentFile) and not isinstance(parent._result, Exception | None):
                text += f"\nreport: {parent._result.folder / 'report.html'}"
            return text
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.experiment.name}: {self.name}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """What ends an experiment's setup is told as plainly as what fails it: pytest itself would show our own code.

    A test in Python that could not be concluded is an error, as an expectation of YAML is. pytest calls an error what
    fails outside of a test's own code, so its report says that it was there.
    """
    report = yield
    if isinstance(item, ExpectationItem) and call.excinfo and call.when == "setup" and report.failed:
        report.longrepr = item.repr_failure(call.excinfo)
    elif _LOADS in item.stash and call.excinfo and call.when in ("call", "teardown") and report.failed:
        if isinstance(call.excinfo.value, Weakness | Inconclusive):
            report.longrepr = "\n".join([str(call.excinfo.value), *(f"report: {page}" for page in _pages(item))])
        if isinstance(call.excinfo.value, Inconclusive) and call.when == "call":
            report.when = "setup"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    """A test in Python gets what YAML has: its runs are valid and clean, and nothing broke that no line asks about."""
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        _refuse_loads(item, error)
        raise
    _refuse_loads(item, None)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    """A load that a fixture holds ends here, and is judged as one that the test itself holds."""
    ended = [running for running in item.stash.get(_LOADS, []) if running.findings]
    try:
        result = yield
    except (Exception, pytest.fail.Exception) as error:
        _refuse_loads(item, error, but=ended)
        raise
    _refuse_loads(item, None, but=ended)
    return result


def _pages(item: pytest.Item) -> list[Path]:
    return [running.folder / "report.html" for running in item.stash[_LOADS]]


def _refuse_loads(item: pytest.Item, error: BaseException | None, but: Sequence[LoadRun] = ()) -> None:
    """Raise what the loads of a test say that is worse than what the test says; ``error``: what it raised.

    ``but``: without these, which were judged before.

    A weakness of the cluster comes first. Then what keeps the run from being concluded: an assert that failed on such a
    run does not blame the cluster.
    """
    from chaos.commands import python_runs

    loads = [running for running in item.stash.get(_LOADS, []) if running not in but]
    runs = [running for running in loads if running.findings and not running.broken]
    asserted = isinstance(error, AssertionError | pytest.fail.Exception)
    if not runs or not (error is None or asserted or isinstance(error, Inconclusive)):
        return  # nothing ran to its end, or the test itself is wrong
    pages = [("report", str(page)) for page in _pages(item)]
    item.user_properties += [each for each in pages if each not in item.user_properties]
    weak = "; ".join(says for running in runs for says in python_runs.weaknesses(running.findings))
    own = f"; the test itself: {str(error).partition(chr(10))[0]}" if error is not None else ""
    if weak and asserted and error is not None:
        error.add_note(f"and the run: {weak}")
    elif weak:
        raise Weakness(weak + own) from error
    elif not isinstance(error, Inconclusive):
        gaps = [says for run in runs for says in python_runs.gaps(run.findings, timed=bool(run.looked_at))]
        if asserted:
            gaps += [says for run in runs for operation in run.looked_at if (says := operation.doubtful)]
        if gaps:
            raise Inconclusive("; ".join(dict.fromkeys(gaps)) + own) from error


# ---- labs that are reused -------------------------------------------------------------------------------


_POOL = pytest.StashKey["LabPool"]()
_OVERRIDES: pytest.StashKey[tuple[Override, ...]] = pytest.StashKey()
_OBJECTIVES: pytest.StashKey[Mapping[str, Duration]] = pytest.StashKey()
_RETRIES: pytest.StashKey[Retries] = pytest.StashKey()
_ON: pytest.StashKey[Runs] = pytest.StashKey()
"""With ``--chaos-on``: what runs there."""
_CAMPAIGN: pytest.StashKey[CampaignCells] = pytest.StashKey()
"""With ``--chaos-campaign``: its cells, and what makes them."""
_STANDING: pytest.StashKey[ExitStack] = pytest.StashKey()
_NEVER: pytest.StashKey[Mapping[Path, str]] = pytest.StashKey()
"""File of an experiment → why it can never be on that cluster."""
_VERDICTS: pytest.StashKey[dict[str, FindingsFile]] = pytest.StashKey()
_LOADS = pytest.StashKey["list[LoadRun]"]()
"""The loads of a test in Python, in order."""
_STOPPED = pytest.StashKey[bool]()
"""Whether a signal ended the last run: then no other begins."""


def _pool(config: pytest.Config) -> LabPool:
    from chaos.run.pool import LabPool

    if _POOL not in config.stash:
        home = config.getoption("--chaos-opensearch-home")
        config.stash[_POOL] = LabPool(
            lambda text: _say(config, f"chaos: {text}"),
            opensearch_home=Path(home) if home else None,
            kind=_kind(config),
        )
    return config.stash[_POOL]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _POOL in session.config.stash:
        session.config.stash[_POOL].close()
    if _STANDING in session.config.stash:
        session.config.stash[_STANDING].close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What the verdicts were, known weaknesses apart, and how many experiments were run once more: a suite that needs
    it often has a machine that is too busy."""
    if runs := config.stash.get(_VERDICTS, {}):
        _tell_verdicts(terminalreporter, runs)
    retries = config.stash.get(_RETRIES, None)
    if retries is not None and retries.runs:
        terminalreporter.write_sep("=", "inconclusive experiments")
        terminalreporter.write_line(retries.tally)
        for line in retries.told:
            terminalreporter.write_line(line)


def _tell_verdicts(reporter: Any, runs: Mapping[str, FindingsFile]) -> None:
    """``runs``: experiment → the findings of its last run."""
    from chaos.checks import shown

    reporter.write_sep("=", "chaos verdicts")
    reporter.write_line(shown.counted(shown.of(findings) for findings in runs.values()))
    for name, findings in runs.items():
        for item in findings["findings"]:
            if item["counts_as"] == "known_weakness":
                reporter.write_line(f"  {name}: known weakness: {item['title']}: {item['measured_text']}")
            elif item["counts_as"] == "unexpected_pass":
                reporter.write_line(f"  {name}: improved: {item['title']}; {shown.CLEAR}")


def _say(config: pytest.Config, text: str) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(text)


def _run(config: pytest.Config, experiment: Experiment, second_of: dict[str, Any] | None = None) -> RunResult:
    """``second_of``: what the run says of the one that it repeats; it then has a new lab."""
    if _ON in config.stash:
        return config.stash[_ON].run(experiment, quiet=config.getoption("verbose") < 1)
    from chaos.base.console import Reporter
    from chaos.registry import PROVIDERS
    from chaos.run.execution import refuse_lacking
    from chaos.run.plan import lab_topology
    from chaos.run.spec import On, RunSpec, carry_out

    refuse_lacking(experiment, PROVIDERS, kind=_kind(config))  # before a lab is made for nothing
    pool = _pool(config)
    if second_of is not None:
        pool.close()
    lab = pool.get(lab_topology(experiment))
    seed, topology = config.getoption("--chaos-seed"), config.getoption("--chaos-topology")
    spec = RunSpec.of(experiment, seed, on=On(_kind(config)), topology=topology)
    return carry_out(
        spec,
        out=Path(config.getoption("--chaos-out")),
        providers=PROVIDERS,
        reporter=Reporter(quiet=config.getoption("verbose") < 1),
        lab=lab,
        second_of=second_of,
    )


# ---- fixtures -------------------------------------------------------------------------------------------


class LabHandle:
    """What the fixture ``lab`` gives: the lab, and faults as context managers."""

    def __init__(self, lab: BaseLab, out: Path, seed: int) -> None:
        self.lab = lab
        self._out, self._seed = out, seed
        self._count = 0
        self.execution: Execution | None = None
        """The load that is on; faults go into its ledger and history."""

    @property
    def topology(self) -> Topology:
        return self.lab.topology

    @contextmanager
    def fault(self, kind: str, **parameters: Any) -> Iterator[Fault]:
        """Hold a fault for the block: ``with lab.fault("network.latency", links="to zone c", delay="3s"):``.

        Needs a load that is on (its run records ledger and evidence). Raises InvalidInput for a wrong fault, and
        Inconclusive when its effect, that it held until the block's end, or its own end cannot be proven.
        """
        from chaos.base.errors import InvalidInput
        from chaos.opensearch.views import elected
        from chaos.registry import FAULTS, ready

        if kind not in FAULTS:
            raise InvalidInput(f"there is no fault '{kind}'", remedy=f"choose one of: {', '.join(FAULTS)}")
        if self.execution is None:
            raise InvalidInput("faults need a load that is on", remedy="put the fault inside `with load(...):`")
        try:
            params = FAULTS[kind].model_validate(parameters)
        except ValueError as error:
            raise InvalidInput(f"{kind}: {error}") from None
        self._count += 1
        now, index = elected(self.lab), self.execution.index
        fault = ready(f"f{self._count}", params, self.lab, seed=self._seed, elected=now, index=index)
        if not self.execution.lifecycle.inject(fault):
            self.execution.lifecycle.undo(fault.id)
            self.execution.stop.check()
            raise Inconclusive(f"{fault.says} is not proven to be in effect")
        try:
            yield fault
        finally:
            gone = self.execution.lifecycle.undo(fault.id)
        if not gone:
            raise Inconclusive(f"the end of {fault.says} is not proven")
        if (vanished := self.execution.lifecycle.vanished.get(fault.id)) is not None:
            raise Inconclusive(f"{vanished}: not proven to be in effect until its end")


class LoadRun:
    """A load that is on: name its phases while it runs; read them after it ended."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._count = 0
        self.phases: dict[str, PhaseResult] = {}
        self.findings: FindingsFile = {}
        self.folder: Path = execution.folder
        self.broken = False
        """Whether the test raised while the load was on: then that is what it says."""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Arrivals intended inside the block belong to this phase."""
        events = self._execution.events
        events.write("phase.start", phase=name, index=self._count, scripted_wait=False)
        self._count += 1
        try:
            yield
        finally:
            events.write("phase.end", phase=name, reason="elapsed")

    def hold(self, duration: str | float) -> None:
        """Let the load run for a while (``20s``). Raises when the driver dies or a stop is asked for."""
        from chaos.definitions import Duration

        seconds = float(Duration.parse(duration)) if isinstance(duration, str) else float(duration)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._execution.tick("holding")
            time.sleep(min(0.1, max(0.0, end - time.monotonic())))

    @property
    def readback(self) -> dict[str, Any] | None:
        """What the final read-back found; None before the load ended."""
        from chaos.history import History

        return History.open(self.folder).readback

    def _finish(self) -> None:
        from chaos.checks.record import Record
        from chaos.commands import python_runs
        from chaos.history import History

        self.phases = python_runs.phases(Record(History.open(self.folder)), _inconclusive)

    @property
    def looked_at(self) -> list[OperationResult]:
        """The operations of phases of which the test read a number that depends on time."""
        return [each for phase in self.phases.values() for each in phase.operations.values() if each.read]


def _exit_after_a_signal(config: pytest.Config) -> None:
    if config.stash.get(_STOPPED, False):
        pytest.exit("a run was stopped by a signal", returncode=pytest.ExitCode.INTERRUPTED)


def _inconclusive(says: str) -> NoReturn:
    raise Inconclusive(says)


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> LabHandle:
    """A clean, green lab of the topology that ``--chaos-topology`` names, or else ``@pytest.mark.topology(name)``
    (default 3az-standby)."""
    from chaos.definitions import load_topology

    config = request.config
    _exit_after_a_signal(config)
    if _ON in config.stash:
        pytest.skip(f"{ON}: a test in Python decides as it goes what it breaks, so it runs on labs alone")
    marker = request.node.get_closest_marker("topology")
    named = config.getoption("--chaos-topology") or (marker.args[0] if marker else "3az-standby")
    topology = load_topology(named, near=request.path)
    seed = config.getoption("--chaos-seed")
    out = Path(config.getoption("--chaos-out"))
    return LabHandle(_pool(config).get(topology), out, seed if seed is not None else 1)


@pytest.fixture
def load(lab: LabHandle, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """``with load(read="100/s", write="100/s", good="1s") as running:`` drives an open-loop load.

    ``good`` is the test's own and stays: ``--chaos-objective`` stands for it where a test leaves it out. ``expect``:
    lines about the whole run, as in YAML, in the place of what every run promises of its data
    (``expect=[{"acknowledged.lost": "<= 5", "because": "…"}]``).
    """

    @contextmanager
    def start(
        *,
        read: str | None = "100/s",
        write: str | None = "100/s",
        good: str | None = None,
        expect: Sequence[Mapping[str, Any]] = (),
        **client: Any,
    ) -> Iterator[LoadRun]:
        from chaos.base.console import Reporter
        from chaos.commands import python_runs
        from chaos.registry import PROVIDERS
        from chaos.run.in_python import python_execution

        given = request.config.stash.get(_OBJECTIVES, {})
        if good is not None and given:
            _say(request.config, f"chaos: {request.node.name}: {OBJECTIVE} does not apply, the test says good={good!r}")
            given = {}

        rates = {"read": read, "write": write}
        operations = [name for name, rate in rates.items() if rate is not None]
        execution = python_execution(
            name=request.node.name,
            lab=lab.lab,
            out=Path(request.config.getoption("--chaos-out")),
            rates=rates,
            good=GOOD if good is None else good,
            objectives=(given, OBJECTIVE),
            client=client,
            seed=lab._seed,
            file=request.path,
            reporter=Reporter(quiet=True),
            providers=PROVIDERS,
            expect=python_runs.lines(expect, lab.topology, operations),
        )
        running = LoadRun(execution)
        request.node.stash.setdefault(_LOADS, []).append(running)
        lab.execution = execution
        try:
            with execution.in_python():
                yield running
        except BaseException:
            running.broken = True
            with suppress(Exception):  # a report all the same; what went wrong in the block is what counts
                running.findings = execution.report().findings
            raise
        finally:
            lab.execution = None
            if execution.stop.signalled:
                request.config.stash[_STOPPED] = True
        result = execution.report()
        running.findings = result.findings
        if not result.clean:
            raise RuntimeError(f"the clean-up failed: {'; '.join(execution.dirt)}")
        if execution.outcome == "error" or running.findings["outcome"] in ("error", "aborted"):
            raise Inconclusive(f"{running.findings['outcome']}: {running.findings['summary']}")
        running._finish()

    return start
