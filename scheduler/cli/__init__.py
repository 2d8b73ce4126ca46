"""The command `rqbeat`: a table of commands, each loaded when it is called, so that a light one starts quickly.

A command is thin: it reads its arguments, calls one thing, prints. Errors become one line on stderr and an exit code
here and nowhere else:

    0 done · 1 failed · 2 usage, settings · 3 no such schedule, job, queue · 4 already there · 5 unhealthy
    69 Redis cannot be reached · 130 interrupted
"""

from __future__ import annotations

import difflib
import importlib
import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from scheduler.cli.cells import bounded
from scheduler.cli.output import UnheardError, drop_output, notice_closed_output, telling_unheard
from shared import installation
from shared.errors import (
    AlreadyExistsError,
    ConfigurationError,
    NotFoundError,
    RqbeatError,
    StoreRefusedError,
    StoreUnavailableError,
)

COMMANDS = {
    "dev": ("scheduler.cli.dev:dev", "Everything in one terminal: server, beat, workers, live view."),
    "run": ("scheduler.cli.run:run", "Run the beat: decide fires and enqueue their jobs."),
    "worker": ("worker.cli:command", "Run workers: take jobs from queues and run them."),
    "check": ("scheduler.cli.check:check", "Load an app and report everything that is wrong with it."),
    "diff": ("scheduler.cli.declared:diff", "What applying an app would change."),
    "apply": ("scheduler.cli.declared:apply", "Make what is stored what an app declares."),
    "list": ("scheduler.cli.listing:listing", "Schedules, with their next and last fires."),
    "show": ("scheduler.cli.listing:show", "One schedule: policies, next fires, latest decisions."),
    "next": ("scheduler.cli.preview:preview", "Preview fires of a schedule or of an expression."),
    "explain": ("scheduler.cli.preview:explain", "What a cron expression means, and what may surprise."),
    "history": ("scheduler.cli.listing:history", "The ledger: what was decided, newest first."),
    "queues": ("scheduler.cli.queues:queues", "Queues in numbers; --watch keeps them on the screen."),
    "fire": ("scheduler.cli.control:fire", "Enqueue one job of a schedule now."),
    "backfill": ("scheduler.cli.control:backfill", "Enqueue the jobs of a range of nominal times."),
    "pause": ("scheduler.cli.control:pause", "Stop the fires of schedules until they are resumed."),
    "resume": ("scheduler.cli.control:resume", "Let paused schedules fire again."),
    "remove": ("scheduler.cli.control:remove", "Forget schedules."),
    "health": ("scheduler.cli.health:health", "Whether this host's beat, worker or Redis is well."),
    "doctor": ("scheduler.cli.doctor:doctor", "What stands in the way, and what the ledger says of the past."),
    "version": ("scheduler.cli.version:version", "The version of rqbeat."),
}
ALIASES = {
    "schedule:run": "run",
    "schedule:list": "list",
    "schedule:pause": "pause",
    "schedule:resume": "resume",
}
EXIT_CODES: Sequence[tuple[type[RqbeatError], int]] = (
    (ConfigurationError, 2),
    (StoreRefusedError, 2),
    (NotFoundError, 3),
    (AlreadyExistsError, 4),
    (StoreUnavailableError, 69),
    (RqbeatError, 1),
)


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        place = COMMANDS.get(ALIASES.get(cmd_name, cmd_name))
        if place is None:
            return None
        module, _, attribute = place[0].partition(":")
        found: click.Command = getattr(importlib.import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in {*COMMANDS, *ALIASES}:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            raise ConfigurationError(f"no command {args[0]!r:.80}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with telling_unheard():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with telling_unheard():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def rqbeat() -> None:
    """A scheduler that feeds a distributed job queue: every fire decided exactly once, run by RQ workers."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(_code_of(sys.argv[1:] if arguments is None else arguments))


def _code_of(arguments: Sequence[str]) -> int:
    try:
        code = _called(arguments)
    except RqbeatError as error:
        return _say(str(error), next(code for kind, code in EXIT_CODES if isinstance(error, kind)))
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except click.ClickException as error:
        return _usage(error)
    except (OSError, UnheardError) as error:
        return _cut_short(error)
    return code if isinstance(code, int) else 0


def _called(arguments: Sequence[str]) -> object:
    notice_closed_output()
    installation.check()
    _check_text(arguments)
    return rqbeat.main(list(arguments), prog_name="rqbeat", standalone_mode=False)


def _check_text(arguments: Sequence[str]) -> None:
    """Bytes that are no UTF-8 arrive as lone surrogates, which neither Redis nor a terminal takes."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise ConfigurationError(f"the argument {argument!r:.120} is not UTF-8 text") from None


def _usage(error: click.ClickException) -> int:
    text = io.StringIO()
    error.show(file=text)
    click.echo(bounded(text.getvalue()), err=True, nl=False)
    return error.exit_code


def _cut_short(error: OSError | UnheardError) -> int:
    """A reader that has gone is told nothing more; all else is told."""
    drop_output()
    if isinstance(error, UnheardError):
        return 0
    return _say(str(error) if error.filename else f"the output can't be written: {error.strerror}", 1)


def _say(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(bounded(f"rqbeat: {message}"), err=True)
    return code
