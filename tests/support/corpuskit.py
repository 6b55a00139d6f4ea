"""The corpus: stored runs with their whole history, what each was judged to be, and ledgers of each provider.

``tests/corpus/runs/NAME.tar.xz`` is a run's folder; ``verdicts.json`` holds the judgement that must never change:
outcome, exit code, each reason's outcome and cause, each finding's verdict and what it counts as. Words may change.
"""

from __future__ import annotations

import functools
import io
import json
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaos.base import text
from chaos.checks import evaluate
from chaos.history import History, seal

FOLDER = Path(__file__).resolve().parents[1] / "corpus"
README = FOLDER / "README.md"
VERDICTS = FOLDER / "verdicts.json"
LEFT_OUT = ("findings.json", "report.html", "junit.xml", "summary.md", "last.json", "logs", "redacted")
"""What is made from the rest, or is for people alone."""
MOST_BYTES = 50_000_000

HEAD = """# The corpus

Runs as they were recorded, and ledgers of each provider. `tests/negative/test_corpus.py` judges every run by its
history and holds the outcome, the reasons and each finding against `verdicts.json`: a change of the code must not
change what an old run was judged to be. A run's rules are those of its plan (`rules`; none: 1).

`python tests/corpus add NAME RUN` takes a run in, `python tests/corpus ledger PROVIDER FILE` a ledger, and
`python tests/corpus page` writes this page. A row of `verdicts.json` is never edited to make a test pass.
"""


def archive(name: str) -> Path:
    """Where a run is kept."""
    return FOLDER / "runs" / f"{name}.tar.xz"


def ledger(provider: str) -> Path:
    """Where a ledger of a provider is kept."""
    return FOLDER / "ledgers" / f"{provider}.jsonl"


def names() -> list[str]:
    """The runs of the corpus, in the order of their names."""
    return sorted(file.name.removesuffix(".tar.xz") for file in (FOLDER / "runs").glob("*.tar.xz"))


def providers() -> list[str]:
    """The providers of which there is a ledger."""
    return sorted(file.stem for file in (FOLDER / "ledgers").glob("*.jsonl"))


def pack(run: Path, name: str, checkout: Path | None = None) -> None:
    """Keep a run's folder: the same folder gives the same bytes.

    The path of its ``checkout`` is not kept; a seal says that this was changed.
    """
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(run, Path(place) / run.name, ignore=shutil.ignore_patterns(".*")))
        if checkout is not None:
            _leave_out(copy, str(checkout).encode())
        archive(name).write_bytes(lzma.compress(_packed(copy), preset=9))


def _leave_out(run: Path, path: bytes) -> None:
    changed = [file for file in _kept(run) if path in file.read_bytes()]
    for file in changed:
        file.write_bytes(file.read_bytes().replace(path, b"/checkout"))
    if names := [str(file.relative_to(run)) for file in changed]:
        seal.add(run, names, "tests/corpus", "the path of the checkout is left out")


def _packed(run: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in _kept(run):
            info = tarfile.TarInfo(f"{run.name}/{file.relative_to(run)}")
            info.size, info.mode = file.stat().st_size, 0o644
            with file.open("rb") as content:
                tar.addfile(info, content)
    return packed.getvalue()


def _kept(run: Path) -> list[Path]:
    return [file for file in sorted(run.rglob("*")) if file.is_file() and not _left_out(file.relative_to(run))]


def _left_out(path: Path) -> bool:
    return path.parts[0] in LEFT_OUT


@contextmanager
def unpacked(name: str) -> Iterator[Path]:
    """The folder of a run of the corpus, free to be changed; it goes with the block."""
    with tempfile.TemporaryDirectory() as place:
        with tarfile.open(archive(name), "r:xz") as tar:
            tar.extractall(place, filter="data")
        (folder,) = Path(place).iterdir()
        yield folder


def judgement(findings: dict[str, Any]) -> dict[str, Any]:
    """What of findings.json must not change."""
    return {
        "outcome": findings["outcome"],
        "exit_code": findings["exit_code"],
        "clean": findings["clean"],
        "reasons": [[each["outcome"], each["cause"], each["finding"]] for each in findings["reasons"]],
        "findings": {each["id"]: [each["verdict"], each["counts_as"]] for each in findings["findings"]},
        "faults": {each["fault"]: each["proven"] for each in findings["faults"]},
    }


def judged(name: str) -> dict[str, Any]:
    """What a run of the corpus is judged to be by this code, and what it is of."""
    with unpacked(name) as folder:
        history = History.open(folder)
        return {**about(history), **judgement(dict(evaluate(history).to_json()))}


def about(history: History) -> dict[str, Any]:
    """What a run is of: its experiment, target, kinds of fault and rules."""
    plan = history.plan
    kinds = [event["fault_kind"] for event in history.events if event["kind"] == "fault.command"]
    return {
        "experiment": (plan.get("experiment") or {}).get("name"),
        "target": (plan.get("lab") or {}).get("kind"),
        "faults of": list(dict.fromkeys(kinds)),
        "rules": plan.get("rules", 1),
    }


@functools.cache
def _stored() -> str:
    return VERDICTS.read_text() if VERDICTS.exists() else "{}"


def verdicts() -> dict[str, Any]:
    """The judgements that must not change, by the run's name."""
    return dict(json.loads(_stored()))


def write_verdicts(found: dict[str, Any]) -> None:
    """Keep judgements."""
    VERDICTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    _stored.cache_clear()


def page() -> str:
    """README.md of the corpus."""
    rows = [
        f"| {name} | {each['target']} | {', '.join(each['faults of']) or 'none'} | {each['rules']} "
        f"| {each['outcome']}{'' if each['clean'] else ', dirty' if each['clean'] is False else ', clean unknown'} |"
        for name, each in sorted(verdicts().items())
    ]
    size = sum(file.stat().st_size for file in (FOLDER / "runs").glob("*.tar.xz"))
    table = "\n".join(["| run | target | kinds of fault | rules | judged |", "|---|---|---|---|---|", *rows])
    head = f"{HEAD}\n{text.plural(len(rows), 'run')}, {size / 1e6:.1f} MB of at most {MOST_BYTES / 1e6:.0f}:\n\n"
    ledgers = f"\nLedgers: {', '.join(providers())}.\n" if providers() else ""
    return f"{head}{table}\n{ledgers}"
