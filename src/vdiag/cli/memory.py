"""`vdiag memory`: what a model needs on a card, before anyone starts a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vdiag.cli.console import COLOR_CHOICES, Console
from vdiag.cli.status import ExitStatus

if TYPE_CHECKING:
    from vdiag.sizing.plan import Ask

KV_DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "fp8_ds_mla")
EXAMPLES = """\b
Examples:
  vdiag memory ./my-model --gpu 24GiB
  vdiag memory config.json --gpu 24GiB --util 0.9 --max-model-len 8192 --tp 2 --kv-cache-dtype fp8
  vdiag memory ~/.cache/huggingface/hub/models--acme--model-7b --gpu 80GiB
  ssh gpu1 cat /srv/models/x/config.json | vdiag memory --config - --gpu 80GiB --format json
\b
Exit status:
  0  it fits        1  it does not        2  the call or the config was at fault
  3  unknown: neither the files nor the config tell the weights"""


class _Size(click.ParamType[int]):
    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from vdiag.sizing.sizes import parsed

        try:
            return value if isinstance(value, int) else parsed(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _cards(short: str, long: str, help_: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that counts cards, or what is put on them; its argument is called as the short one."""
    return click.option(
        short, long, short.lstrip("-"), default=1, type=click.IntRange(1, 1024), metavar="N", help=help_
    )


@click.command(
    "memory", short_help="Tell whether a model fits on a card, from its config.json.", epilog=EXAMPLES
)
@click.argument("model", required=False, type=click.Path(), metavar="[CONFIG|FOLDER]")
@click.option("--config", "config", metavar="FILE|-", help="The same as the argument; `-`: standard input.")
@click.option(
    "--gpu",
    "card",
    type=_Size(),
    required=True,
    metavar="SIZE",
    help="Memory of one card: 24GiB, 80G. What `nvidia-smi` shows is the surest.",
)
@click.option(
    "--util",
    "--gpu-memory-utilization",
    "utilization",
    default=0.92,
    type=click.FloatRange(0, 1, min_open=True),
    help="vLLM's share of the card. Default: 0.92, as vLLM's of today; up to 0.17 it was 0.9.",
)
@click.option(
    "--max-model-len",
    "length",
    type=click.IntRange(1, 1 << 30),
    metavar="TOKENS",
    help="Longest context. Default: what the config says.",
)
@_cards("--tp", "--tensor-parallel-size", help_="Cards that share each layer.")
@_cards("--pp", "--pipeline-parallel-size", help_="Stages that share the layers out.")
@_cards("--dp", "--data-parallel-size", help_="Replicas; they divide nothing but experts.")
@_cards("--dcp", "--decode-context-parallel-size", help_="Cards that share the tokens of a request.")
@click.option("--enable-expert-parallel", "experts", is_flag=True, help="Experts are divided over TP x DP.")
@click.option(
    "--kv-cache-dtype",
    "kv_dtype",
    default="auto",
    type=click.Choice(KV_DTYPES),
    help="Type of the KV cache. `auto`: the model's.",
)
@click.option(
    "--dtype",
    default="auto",
    type=click.Choice(["auto", "bfloat16", "float16", "float32"]),
    help="Type of the weights where they are not quantised.",
)
@click.option(
    "--mamba-ssm-cache-dtype",
    "state_dtype",
    default="auto",
    type=click.Choice(["auto", "float16", "bfloat16", "float32"]),
    help="Type of a Mamba layer's state.",
)
@click.option(
    "--quantization",
    type=click.Choice(["fp8", "bitsandbytes"]),
    help="Quantise while loading.",
)
@click.option(
    "--max-num-seqs",
    "seqs",
    type=click.IntRange(1, 1 << 20),
    metavar="N",
    help="Requests in a batch. Default: vLLM's for such a card.",
)
@click.option(
    "--max-num-batched-tokens",
    "batched",
    type=click.IntRange(1, 1 << 24),
    metavar="N",
    help="Tokens in a batch. Default: vLLM's for such a card.",
)
@click.option(
    "--block-size",
    "block",
    type=click.IntRange(1, 4096),
    metavar="TOKENS",
    help="Tokens in a block. Default: 16; 64 for MLA.",
)
@click.option("--enforce-eager", "eager", is_flag=True, help="Without CUDA graphs.")
@click.option(
    "--no-enable-prefix-caching",
    "no_prefix",
    is_flag=True,
    help="Without prefix caching (it costs Mamba layers two states more a request).",
)
@click.option(
    "--disable-hybrid-kv-cache-manager",
    "no_hybrid",
    is_flag=True,
    help="Blocks for all tokens, also in sliding windows.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    help="For people (the default) or for programs.",
)
@click.option("--all", "everything", is_flag=True, help="Show long lists in full.")
@click.option("--color", type=click.Choice(COLOR_CHOICES), default="auto", help="Colour the output.")
@click.pass_obj
def memory(
    console: Console,
    /,
    model: str | None,
    config: str | None,
    no_prefix: bool,
    no_hybrid: bool,
    format_: str,
    everything: bool,
    color: str,
    **asked: Any,
) -> ExitStatus:
    """Tell where the memory of a card would go, and what fits, before a server starts.

    The model is a config.json, a folder with one, or a folder of the hub cache. With safetensors files beside the
    config their headers give the weights, else the parameter count does. Nothing is fetched. GGUF and Mistral's
    params.json are not read. What vLLM measures only while it starts (activations, CUDA graphs, libraries) is
    estimated, and says so.
    """  # fmt: skip
    if (model is None) == (config is None):
        raise click.UsageError("Name one model: a config.json or a folder, or --config - for standard input.")
    from vdiag.sizing.plan import Ask

    asked["quantization"] = asked["quantization"] or ""
    ask = Ask(**asked, prefix_caching=not no_prefix, hybrid=not no_hybrid)
    return _answer(console, model or config or "-", ask, format_, everything, color)


def _answer(console: Console, name: str, ask: Ask, format_: str, everything: bool, color: str) -> ExitStatus:
    from vdiag.sizing import source
    from vdiag.sizing.config import LONGEST_CONFIG, Unsizable
    from vdiag.sizing.plan import plan
    from vdiag.sizing.safetensors import tensors_of

    try:
        if name == "-":
            found = source.from_bytes(console.stdin.read(LONGEST_CONFIG + 1), "standard input")
        else:
            found = source.from_path(Path(name).expanduser())
        made = plan(found.config, tensors_of(found.folder) if found.folder is not None else [], ask)
    except OSError as error:
        console.say(f"{error.filename or name}: {error.strerror or error}")
        return ExitStatus.USAGE
    except ValueError as error:  # no config that can be sized, or no path
        console.say(str(error) if isinstance(error, Unsizable) else f"{name}: {error}")
        return ExitStatus.USAGE
    if format_ == "json":
        import msgspec

        from vdiag.render.page import spelled

        console.write_utf8(spelled(msgspec.json.encode(made).decode()) + "\n")
    else:
        from vdiag.render import memory as render_memory
        from vdiag.render import terminal

        page = render_memory.render(made, width=console.columns, everything=everything)
        terminal.write(page, console.stdout, color=console.colored(color))
    if made.fits is None:
        return ExitStatus.NO_ANSWER
    return ExitStatus.OK if made.fits else ExitStatus.DIAGNOSED
