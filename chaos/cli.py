"""The command line: which commands there are, and what becomes of their errors. Each is a module of chaos.commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import chaos
from chaos.base.console import keep_clean
from chaos.base.errors import ChaosError, Exit
from chaos.commands import campaign, fis, fis_acceptance, gameday
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
from chaos.commands.standing_in import fis_endpoint
from chaos.commands.starting import init
from chaos.commands.targets import target_check, target_rights
from chaos.commands.upstream import upstream
from chaos.commands.workloads import workload_check, workload_list

app = typer.Typer(
    name="opensearch-chaos",
    help="Chaos experiments on real OpenSearch clusters, with verdicts that can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
lab_app = typer.Typer(help="A cluster to play with: up, status, exec, down.", no_args_is_help=True)
app.add_typer(lab_app, name="lab")
workload_app = typer.Typer(help="Documents and searches of a load: check, import, list.", no_args_is_help=True)
app.add_typer(workload_app, name="workload")
target_app = typer.Typer(help="A cluster that exists, by its file: check, rights.", no_args_is_help=True)
app.add_typer(target_app, name="target")
gameday_app = typer.Typer(
    help="Game days: scheduled, gated, announced, stoppable, on the record.", no_args_is_help=True
)
app.add_typer(gameday_app, name="gameday")
campaign_app = typer.Typer(
    help="Many runs, on one machine or on many: plan, run, work, status, verify, report, rerun.", no_args_is_help=True
)
app.add_typer(campaign_app, name="campaign")
fis_app = typer.Typer(help="Faults by AWS FIS: preflight, policy, export, acceptance.", no_args_is_help=True)
app.add_typer(fis_app, name="fis")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        out.print(chaos.__version__)
        raise typer.Exit


COMMANDS: tuple[Callable[..., None], ...] = (
    run,
    validate,
    plan,
    faults,
    done,
    report,
    init,
    compare,
    baseline,
    judge,
    suite,
    trend,
    scorecard,
    export,
    audit,
    observe,
    failover,
    nemesis,
    hunt,
    upstream,
    recover,
    doctor,
)
"""In the order in which ``--help`` lists them."""
for command in COMMANDS:
    app.command()(command)
app.command("docker-image")(docker_image)
app.command("fis-endpoint")(fis_endpoint)
lab_app.command("up")(lab_up)
lab_app.command("status")(lab_status)
lab_app.command("exec", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(lab_exec)
lab_app.command("down")(lab_down)
workload_app.command("check")(workload_check)
workload_app.command("list")(workload_list)
workload_app.command("import")(workload_import)
target_app.command("check")(target_check)
target_app.command("rights")(target_rights)
for name, each in gameday.COMMANDS.items():
    gameday_app.command(name)(each)
for name, each in campaign.COMMANDS.items():
    campaign_app.command(name)(each)
for name, command in (fis.COMMANDS | fis_acceptance.COMMANDS).items():
    fis_app.command(name)(command)

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
        raise SystemExit(int(Exit.ERROR)) from None
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
