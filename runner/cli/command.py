"""Commands with short and full help pages, and the options that all of them take."""

from __future__ import annotations

import inspect
import os
import re
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

import click

from runner import settings
from runner.cli.encoding import print_text
from runner.settings import DURATION_HINT, Setting
from runner.source.normalize import suggest
from runner.source.quantity import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click import Context, Parameter

    Decorator = Callable[[Any], Any]

_ALL_META = "runner.cli.shows_all"


class SpecialOption(click.Option):
    """An option that most users never need: only `--help-all` shows it."""


def special_option(*names: str, **attributes: Any) -> Decorator:
    """Return a decorator that adds an option which only `--help-all` shows."""
    return click.option(*names, cls=SpecialOption, **attributes)


_EXAMPLES = re.compile(r"\n+(Examples?:)\n+")


class _Page(click.Command):
    """A command that takes the common options; its help page has no special ones without `--help-all`.

    The examples of its docstring end the page.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.help, *examples = _EXAMPLES.split(inspect.cleandoc(self.help or ""), maxsplit=1)
        if examples:
            head, body = examples
            shown = f"{head}\n{indent(dedent(body), '  ')}".replace("\n\n", "\n\n\b\n")
            self.epilog = "\n\n".join(filter(None, (self.epilog, f"\b\n{shown}")))

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Return its parameters, and after them the common options."""
        return [*super().get_params(ctx), *COMMON_OPTIONS]

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and the way to the others."""
        own = [one for one in super().get_params(ctx) if isinstance(one, click.Option)]
        has_more = write_options(ctx, formatter, own) and not shows_all(ctx)
        more = f"More: {ctx.command_path} --help-all. " if has_more else ""
        formatter.write_paragraph()
        formatter.write_text(f"{more}For all commands: runner --help-all.")


class Command(_Page):
    """A command."""


class Group(_Page, click.Group):
    """A group of commands."""

    command_class = Command

    def resolve_command(
        self, ctx: Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name.

        Raises:
            UsageError: there is no such command; with the one that was probably meant.
        """
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-") and not ctx.resilient_parsing:
            other = SYNONYMS.get(name)
            close = suggest(name, self.list_commands(ctx), f"`{ctx.command_path} {{}}`")
            said = f": did you mean `runner {other}`?" if other else close
            raise click.UsageError(f"there is no command {name}{said}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, and the way to the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def shows_all(ctx: Context) -> bool:
    """Return whether a help page is the full one."""
    return bool(ctx.meta.get(_ALL_META))


def show_all(ctx: Context) -> None:
    """Have help pages be the full ones."""
    ctx.meta[_ALL_META] = True


def write_options(ctx: Context, formatter: click.HelpFormatter, options: Sequence[click.Option]) -> bool:
    """Write the options of a help page; return whether some are left for the full one."""
    special = [one for one in options if isinstance(one, SpecialOption)]
    for heading, part in (
        ("Options", [one for one in options if one not in special]),
        ("Special options", special if shows_all(ctx) else []),
    ):
        records = [record for one in part if (record := one.get_help_record(ctx))]
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)
    return bool(special)


SYNONYMS = {
    "check": "validate",
    "delete": "forget",
    "dry-run": "plan",
    "inbox": "sandbox serve",
    "results": "report",
    "send": "apply",
    "simulate": "sandbox simulate",
    "stop": "pause",
    "unsubscribe": "optouts add",
}
"""Commands by the words that people may try for them."""


class Duration(click.ParamType[float]):
    """A duration, read as seconds."""

    name = "duration"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        """Return a duration in seconds; a wrong one is a mistake on the command line."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value)).total_seconds()
        except ValueError:
            self.fail(f"{value!r} is not a duration: {DURATION_HINT}", param, ctx)


DURATION = Duration()


def _write_option(setting: Setting) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return the names and attributes of a setting's option, for Click."""
    attributes: dict[str, Any] = {
        "help": f"{setting.describe()}  [env var: {setting.variable}]",
        "metavar": setting.metavar,
        "type": DURATION if setting.kind == "duration" else None,
        "is_flag": setting.kind == "switch",
        "multiple": setting.kind == "list",
    }
    return (setting.option, setting.name), attributes


def _is_given(value: Any) -> bool:
    # A duration of 0 is given.
    return value is not None and value is not False and value != ()


def setting_option(setting: Setting, **attributes: Any) -> Decorator:
    """Return a decorator that adds a setting's option; the command gets its value, or the environment's."""

    def read(_ctx: Context, _option: Parameter, value: Any) -> Any:
        return value if _is_given(value) else setting.read(os.environ)

    names, own = _write_option(setting)
    return click.option(*names, **own, **attributes, callback=read)


def _remember(ctx: Context, option: Parameter, value: Any) -> None:
    """Keep the value of a common option, wherever it stands on the command line."""
    if _is_given(value) and option.name is not None:
        given = ctx.find_root().ensure_object(dict)
        before = given.get(option.name, ())
        given[option.name] = (*before, *value) if isinstance(value, tuple) else value


def _show_full_page(ctx: Context, _option: Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        show_all(ctx)
        print_text(ctx.get_help())
        ctx.exit()


def _keep_option(*names: str, cls: type[click.Option] = SpecialOption, **attributes: Any) -> click.Option:
    return cls(names, **{"expose_value": False, "callback": _remember, **attributes})


def _keep_setting(setting: Setting, **attributes: Any) -> click.Option:
    names, own = _write_option(setting)
    return _keep_option(*names, **own | attributes)


COMMON_OPTIONS = (
    _keep_option(
        "-q", "--quiet", cls=click.Option, is_flag=True, help="Print only errors on standard error."
    ),
    _keep_option("-v", "--verbose", cls=click.Option, is_flag=True, help="Print more on standard error."),
    _keep_option(
        "--help-all",
        cls=click.Option,
        is_flag=True,
        is_eager=True,
        callback=_show_full_page,
        help="Show special options and settings, too.",
    ),
    *map(_keep_setting, settings.COMMON),
    # For tests of what a machine leaves behind: how long its hold on the state remote outlives it.
    _keep_option("--state-lease", "state_lease_s", type=click.FloatRange(0.5, 3600), hidden=True),
)
"""Options that stand before or after a command's name, and are remembered for its scope."""
