"""The command line: which commands there are, and what becomes of their errors. Each is a module of chaos.commands."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

import chaos
from chaos.base.console import keep_clean
from chaos.base.errors import ChaosError, Exit
from chaos.commands import campaign, fis, fis_acceptance, gameday, kubernetes
from chaos.commands.auditing import audit
from chaos.commands.catalogue import faults
from chaos.commands.common import out, say_error
from chaos.commands.comparing import baseline, compare
from chaos.commands.drawing import nemesis
from chaos.commands.exporting import export
from chaos.commands.failing_over import failover
from chaos.commands.hunting import hunt
from chaos.commands.importing import workload_import
from chaos.commands.judging import judge
from chaos.commands.labs import lab_down, lab_exec, lab_status, lab_up
from chaos.commands.observing import observe
from chaos.commands.overviews import suite, trend
from chaos.commands.planning import plan, validate
from chaos.commands.preparing import docker_image, doctor, recover
from chaos.commands.reporting import report
from chaos.commands.running import run
from chaos.commands.saying_done import done
from chaos.commands.scorecard import scorecard
from chaos.commands.shipping import experiments
from chaos.commands.standing_in import fis_endpoint
from chaos.commands.starting import init
from chaos.commands.targets import target_check, target_rights
from chaos.commands.upstream import upstream
from chaos.commands.workloads import workload_check, workload_list

app = typer.Typer(
    name="opensearch-chaos",
    help="Chaos experiments on real OpenSearch clusters, with verdicts that can be trusted.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        out.print(chaos.__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _group(name: str, says: str, commands: Mapping[str, Callable[..., None]], panel: str) -> typer.Typer:
    """Commands of one word more: ``lab up``."""
    made = typer.Typer(help=says, no_args_is_help=True)
    app.add_typer(made, name=name, rich_help_panel=panel)
    for each, command in commands.items():
        made.command(each)(command)
    return made


FIRST, RUN, JUDGE = "First steps", "Write and run experiments", "Judge, compare and draw runs"
EXISTING, GAMEDAYS, LABS, UPSTREAM = "Clusters that exist", "Game days", "Labs and this machine", "Bugs of OpenSearch"
PANELS: Mapping[str, tuple[Callable[..., None], ...]] = {
    FIRST: (doctor, init, experiments),
    RUN: (run, validate, plan, faults, done, nemesis, hunt),
    JUDGE: (report, judge, compare, baseline, suite, trend, scorecard, export),
    EXISTING: (audit, observe, failover),
    GAMEDAYS: (),
    LABS: (recover,),
    UPSTREAM: (upstream,),
}
"""The groups of ``--help`` in their order, each with its commands in theirs; commands of two words come after."""
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("docker-image", rich_help_panel=LABS)(docker_image)
app.command("fis-endpoint", rich_help_panel=EXISTING)(fis_endpoint)
lab_app = _group(
    "lab",
    "A cluster to play with: up, status, exec, down.",
    {"up": lab_up, "status": lab_status, "down": lab_down},
    FIRST,
)
lab_app.command("exec", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(lab_exec)
_group(
    "workload",
    "Documents and searches of a load: check, import, list.",
    {"check": workload_check, "list": workload_list, "import": workload_import},
    RUN,
)
_group(
    "target",
    "A cluster that exists, by its file: check, rights.",
    {"check": target_check, "rights": target_rights},
    EXISTING,
)
_group("gameday", "Game days: scheduled, gated, announced, stoppable, on the record.", gameday.COMMANDS, GAMEDAYS)
_group(
    "campaign",
    "Many runs, on one machine or on many: plan, run, work, status, verify, report, rerun.",
    campaign.COMMANDS,
    RUN,
)
_group(
    "fis",
    "Faults by AWS FIS: preflight, policy, export, acceptance.",
    fis.COMMANDS | fis_acceptance.COMMANDS,
    EXISTING,
)
_group("kubernetes", "Clusters on Kubernetes: policy.", kubernetes.COMMANDS, EXISTING)

INTERRUPTED = 130
"""What typer makes of a Ctrl-C where no run has its own handler, as during a download."""


def main() -> None:
    """Entry point: one line for every failure that we know, never a traceback for a user's mistake."""
    keep_clean()
    os.umask(os.umask(0o022) | 0o002)  # ledgers and records: what they say is done, so only we may write them
    try:
        code = app(standalone_mode=False)  # click hands an exit code back instead of raising it
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        raise SystemExit(code if isinstance(code, int) else 0)
    except ChaosError as error:
        say_error(error)
        raise SystemExit(int(error.exit_code)) from None
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(int(Exit.ERROR)) from None
    except OSError as error:  # a folder that cannot be written, a full disk
        where = f": {error.filename}" if error.filename else ""
        print(f"opensearch-chaos: {error.strerror or error}{where}", file=sys.stderr)
        exit_code = Exit.USAGE if error.errno == errno.ENAMETOOLONG else Exit.ERROR  # that name was given
        raise SystemExit(int(exit_code)) from None
    except (typer.Abort, KeyboardInterrupt):
        print("opensearch-chaos: interrupted", file=sys.stderr)
        raise SystemExit(int(Exit.ABORTED)) from None
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")) and hasattr(error, "format_message"):
            print(f"opensearch-chaos: {error.format_message()}", file=sys.stderr)
            raise SystemExit(int(Exit.USAGE)) from None
        raise


if __name__ == "__main__":
    main()
