"""JUnit XML: what CI systems show.

One test case per expectation and phase, and one each for the run itself, the proof of the faults, the ends of
processes, documents that should not be there and the clean-up, so that nothing which fails the command is invisible.
A weakness is a ``failure``: the system under test; so is a known one that is gone (type ``improved``), until its note
is cleared. Inconclusive, aborted and error are an ``error``: no verdict about it. A known weakness within its bound
is ``skipped`` with its reason, as pytest writes an expected failure; so is a promise that is broken within what the
file allows. The properties ``verdict``, ``tally`` and ``count.known_weakness``
tell such a pass from one without.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from chaos.base import text
from chaos.checks import defaults, shown
from chaos.checks.models import FindingsFile
from chaos.checks.reasons import Cause
from chaos.checks.shown import CLEAR
from chaos.report import within

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST = 2000
LAST_LINES = 5
"""Of the log of a process that ended unasked."""


def junit_xml(findings: FindingsFile) -> str:
    """``findings``: the content of findings.json. Returns the whole file."""
    run = findings.get("run") or {}
    experiment = _clean(run.get("experiment") or run.get("name") or "run")
    cases: list[ET.Element] = []
    for finding in findings["findings"]:
        if finding["metric"] == defaults.PROCESS:
            continue  # a case of its own below, with the last lines of the log
        case = _case(cases, experiment, finding["title"])
        counts = finding["counts_as"]
        message = f"measured {finding['measured_text']}, wanted {finding['target']}: {finding['says']}"
        if counts == "weakness":
            _add(case, "failure", "weakness", message)
        elif counts == "unexpected_pass":
            _add(case, "failure", "improved", f"improved, {CLEAR}: {message}")
        elif counts == "inconclusive":
            _add(case, "error", "inconclusive", message)
        elif counts == "known_weakness":
            bound = finding.get("known_bound") or "unbounded"
            note = f"known weakness ({bound}): {finding['known_weakness']} ({message})"
            _add(case, "skipped", "known weakness", note)
        elif counts == "relaxed":
            _add(case, "skipped", "relaxed", f"relaxed, because {finding.get('relaxed')} ({message})")
    _checks(cases, experiment, findings)
    suite = ET.Element(
        "testsuite",
        name=experiment,
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{run.get('seconds') or 0:.3f}",
    )
    if run.get("started"):
        suite.set("timestamp", _clean(str(run["started"]).rstrip("Z")))
    properties = ET.SubElement(suite, "properties")
    for name in ("outcome", "clean", "exit_code", "headline", "summary"):
        ET.SubElement(properties, "property", name=name, value=_clean(str(findings.get(name))))
    ET.SubElement(properties, "property", name="verdict", value=shown.of(findings).words)
    ET.SubElement(properties, "property", name="tally", value=shown.tally(findings))
    for kind in ("known_weakness", "unexpected_pass", "relaxed"):
        number = sum(item["counts_as"] == kind for item in findings["findings"])
        ET.SubElement(properties, "property", name=f"count.{kind}", value=str(number))
    for name in ("name", "seed", "hash"):
        ET.SubElement(properties, "property", name=f"run.{name}", value=_clean(str(run.get(name))))
    for op, words in within.objectives(findings).items():
        ET.SubElement(properties, "property", name=f"objective.{_clean(op)}", value=_clean(words))
    repeats = within.second_of(findings)
    if repeats is not None:
        ET.SubElement(properties, "property", name="second_of", value=_clean(repeats))
    suite.extend(cases)
    if repeats is not None:  # what is no test case is shown by few: this most of them show
        ET.SubElement(suite, "system-out").text = _clean(repeats)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _checks(cases: list[ET.Element], experiment: str, findings: FindingsFile) -> None:
    """The cases that are no expectations."""
    case = _case(cases, experiment, "the run reached its end")
    stopped = [reason for reason in findings["reasons"] if reason["outcome"] in ("error", "aborted")]
    if stopped:
        _add(case, "error", stopped[0]["outcome"], "; ".join(reason["says"] for reason in stopped))
    gaps = [
        reason["says"]
        for reason in findings["reasons"]
        if reason["outcome"] == "inconclusive" and not reason["finding"]
    ]
    case = _case(cases, experiment, "faults, steps and instruments are proven")
    if gaps:
        _add(case, "error", "inconclusive", "; ".join(gaps))
    case = _case(cases, experiment, "no process ended that nobody had asked to")
    ended = findings["tables"].get("ends") or []
    said = "; ".join(" | ".join([end["says"], *end["log_tail"][-LAST_LINES:]]) for end in ended)
    if any(end["weakness"] for end in ended):
        _add(case, "failure", "weakness", said)
    elif ended:
        _add(case, "error", "inconclusive", said)
    if any(finding.get("default") and finding["metric"] == "documents.unexpected" for finding in findings["findings"]):
        return _clean_up(cases, experiment, findings)  # a case among the findings
    documents = [reason["says"] for reason in findings["reasons"] if reason["cause"] == Cause.DOCUMENTS]
    case = _case(cases, experiment, "no documents that should not be there")
    if documents:
        _add(case, "failure", "weakness", "; ".join(documents))
    _clean_up(cases, experiment, findings)


def _clean_up(cases: list[ET.Element], experiment: str, findings: FindingsFile) -> None:
    case = _case(cases, experiment, "clean-up")
    if findings["clean"] is not True:
        says = "clean-up failed" if findings["clean"] is False else "nothing says whether clean-up succeeded"
        _add(case, "error", "dirty" if findings["clean"] is False else "unknown", says)


def _case(cases: list[ET.Element], experiment: str, name: str) -> ET.Element:
    case = ET.Element("testcase", classname=experiment, name=_clean(name), time="0")
    cases.append(case)
    return case


def _add(case: ET.Element, tag: str, kind: str, message: str) -> None:
    short = _clean(message)
    element = ET.SubElement(case, tag, message=short)
    if tag != "skipped":
        element.set("type", kind)
    element.text = short


def _clean(words: str) -> str:
    """Without characters that XML 1.0 forbids, and not endless."""
    return text.clip(text.clean(_ILLEGAL.sub("�", words)), LONGEST)
