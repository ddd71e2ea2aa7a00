"""`runner completion`: a script that has a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from runner.cli.command import Command

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(cls=Command)
@click.argument("shell", type=click.Choice([*_SHELLS]), metavar="bash|zsh|fish")
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print a script with which the shell completes commands and options.

    Write it where the shell looks for such scripts, and open a new shell.

    Examples:
        mkdir -p ~/.local/share/bash-completion/completions
        runner completion bash > ~/.local/share/bash-completion/completions/runner

        mkdir -p ~/.zfunc    # in fpath, before compinit
        runner completion zsh > ~/.zfunc/_runner

        mkdir -p ~/.config/fish/completions
        runner completion fish > ~/.config/fish/completions/runner.fish
    """
    complete = _SHELLS[shell](ctx.find_root().command, {}, "runner", "_RUNNER_COMPLETE")
    click.echo(complete.source(), nl=False)
    return 0
