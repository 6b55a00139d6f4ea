"""Checks: pure functions from a run's history to findings.

One file per check, each with its formula and source; :mod:`chaos.checks.verdict` puts them together. They
read nothing but the history, so a saved run can be judged again elsewhere with nothing but this package.
"""

from chaos.checks.reasons import Outcome
from chaos.checks.verdict import Finding, Findings, evaluate, exit_code
from chaos.checks.verdict import judge_folder as judge

__all__ = ["Finding", "Findings", "Outcome", "evaluate", "exit_code", "judge"]
