"""`vdiag collect [UNIT]`: what a diagnosis needs of this machine, in one file, and the diagnosis of it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from vdiag.cli.console import Console
from vdiag.cli.diagnose import diagnose_files, report_options
from vdiag.cli.status import ExitStatus

if TYPE_CHECKING:
    from vdiag.intake.collect import Collected

EPILOG = """\b
Examples:
  vdiag collect vllm                   a systemd unit
  vdiag collect --user vllm            a unit of your own
  vdiag collect -c my-vllm             a docker or podman container
  sudo vdiag collect vllm -o /tmp/vllm.tar.zst"""

FOLDER = "collect"  # in the bundle
NAMES_GONE = "Secrets, names, addresses and prompts are replaced. Look it over before you send it."
NAMES_STAY = (
    "Secrets that were found are replaced; host and user names, addresses and prompts are still in it. "
    "--redact replaces them too. Look it over before you send it."
)
MOST_SAID = 8  # lines about what is missing; all of it stands in the bundle


@click.command("collect", short_help="Gather logs and state of this machine in one file.", epilog=EPILOG)
@click.argument("unit", required=False, metavar="[UNIT]")
@click.option("--user", is_flag=True, help="The unit is one of your own (systemctl --user).")
@click.option("-c", "--container", "containers", multiple=True, metavar="NAME",
              help="A docker or podman container; may be repeated.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE",
              help="Where to write it. Default: vdiag-collect-TIME.tar.zst here.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the file if it is there already.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="How long to wait for each command. Default: 10, for a log 60.")  # fmt: skip
@report_options
@click.pass_obj
def collect(
    console: Console,
    /,
    unit: str | None,
    user: bool,
    containers: tuple[str, ...],
    output: str | None,
    force: bool,
    timeout: float | None,
    **options: Any,
) -> ExitStatus:
    """Gather on this machine what the diagnosis of a failed server needs, and print the diagnosis.

    Into one file go: the journal of UNIT since its last start or a container's log, the kernel log of that time,
    what systemd or docker knows of it, its limits, the cards and who uses them, disks, memory, and the versions
    beside vLLM. What cannot be had is noted. Secrets that are found are replaced; --redact replaces names,
    addresses and prompts too. Nothing is changed on the machine, and nothing is sent anywhere. `vdiag FILE` reads
    the file again.
    """
    from vdiag.intake.asks import NAMES

    if unit is not None and not NAMES["unit"].fullmatch(unit):
        raise click.BadParameter("that is no name of a systemd unit", param_hint="UNIT")
    for name in containers:
        if not NAMES["container"].fullmatch(name):
            raise click.BadParameter("that is no name of a container", param_hint="--container")
    if output == "-":
        raise click.BadParameter("a bundle is a file, not a stream", param_hint="--output")
    path, made = _gathered(console, unit or "", containers, user, output, force, timeout or 0.0)
    if not made.of_server:
        console.say("it holds no log of a server: there is nothing to diagnose")
        if console.redaction is not None:
            console.redaction.write_map()
        return ExitStatus.USAGE if made.faults else ExitStatus.NO_ANSWER
    status = diagnose_files(console, [path], **options)
    return ExitStatus.USAGE if made.faults else status


def _gathered(
    console: Console,
    unit: str,
    containers: tuple[str, ...],
    user: bool,
    output: str | None,
    force: bool,
    timeout: float,
) -> tuple[str, Collected]:
    """Makes the bundle; its path, and what is in it."""
    from vdiag import __version__
    from vdiag.cli.redaction import Redaction
    from vdiag.intake import pack
    from vdiag.intake.asks import ABOUT
    from vdiag.intake.collect import Limits, about
    from vdiag.intake.collect import collect as collected

    path, packed = _named(console, output)
    redaction = console.redaction or Redaction(secrets_only=True)
    now = time.time()
    try:
        with pack.new(path, replace=force) as file:
            made = collected(unit, containers, user=user, limits=Limits(seconds=timeout))
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now))
            heading = [
                f"By vdiag {__version__}, {when} UTC. {NAMES_GONE if console.redaction else NAMES_STAY}"
            ]
            members = redaction.files({ABOUT: about(made, heading).encode(), **made.members})
            pack.write(file, members, FOLDER, now, packed)
    except FileExistsError:
        raise click.UsageError(f"{path} is there already; --force replaces it.") from None
    for note in made.notes:
        console.say(redaction.text(note))
    for what in made.missing[:MOST_SAID]:
        console.say(f"missing: {redaction.text(what)}")
    if len(made.missing) > MOST_SAID:
        console.say(f"missing: {len(made.missing) - MOST_SAID} more, see {FOLDER}/{ABOUT} in the file")
    console.say(
        f"{path}: {_size(os.path.getsize(path))}, {len(members)} file{'s' if len(members) > 1 else ''}"
    )
    console.say(NAMES_GONE if console.redaction else NAMES_STAY)
    return path, made


def _named(console: Console, output: str | None) -> tuple[str, str]:
    """Where the bundle goes, and how it is packed: as its name ends, if that can be done here."""
    from vdiag.intake.pack import GZIP, ZSTD, ending

    if output is None:
        packed = ending()
        return f"vdiag-collect-{time.strftime('%Y%m%d-%H%M%S')}{packed}", packed
    if output.endswith((".gz", ".tgz")):
        return output, GZIP
    packed = ending()
    if packed == GZIP:
        if output.endswith(ZSTD):
            output = output.removesuffix(ZSTD) + GZIP
        console.say(f"no library for zstd is here: {output} is made with gzip")
    return output, packed


def _size(count: int) -> str:
    return f"{count / 1024:.1f} KiB" if count < 1 << 20 else f"{count / (1 << 20):.1f} MiB"
