"""What vLLM's own words say of an exception that no rule names: the settings it concerns, and the part it came from.

The names are those of the command line flags of vLLM's versions (arguments.json), as code spells them
(`max_model_len`), as the command line does, or in words. Nothing is known here of what such a message means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from vdiag.advise import form
from vdiag.advise.arguments import flag_of, known_flags, number, takes, versions_with
from vdiag.advise.values import plain
from vdiag.assemble.shapes import frame_parts
from vdiag.model import Event, Fix, Safety

MOST = 4  # settings named of one message
MOST_TEXT = 4000  # characters looked at

#: Where a path of vLLM's sources begins so: what is done there. The first that fits counts.
PARTS = (
    ("vllm/config", "checking the configuration"),
    ("vllm/engine/arg_utils", "turning the arguments into a configuration"),
    ("vllm/transformers_utils/processors", "preparing images, audio or video for the model"),
    ("vllm/transformers_utils", "reading the model's own files (configuration, tokenizer)"),
    ("vllm/tokenizers", "loading the tokenizer"),
    ("vllm/platforms", "fitting the configuration to the hardware"),
    ("vllm/distributed/kv_transfer", "moving KV cache between servers"),
    ("vllm/distributed/eplb", "balancing experts over the cards"),
    ("vllm/distributed/weight_transfer", "taking new weights from a trainer"),
    ("vllm/distributed", "connecting the workers"),
    ("vllm/model_executor/model_loader", "loading the weights"),
    ("vllm/model_executor/layers/quantization", "setting quantized layers up"),
    ("vllm/model_executor/layers/fused_moe", "setting the experts (MoE) up"),
    ("vllm/model_executor/models", "building or running the model"),
    ("vllm/model_executor/warmup", "warming kernels up"),
    ("vllm/model_executor", "building or running the model's layers"),
    ("vllm/multimodal", "preparing images, audio or video for the model"),
    ("vllm/renderers", "turning a request into a prompt"),
    ("vllm/lora", "handling LoRA adapters"),
    ("vllm/compilation", "compiling the model"),
    ("vllm/v1/attention", "setting attention up"),
    ("vllm/attention", "setting attention up"),
    ("vllm/v1/structured_output", "preparing structured output"),
    ("vllm/v1/spec_decode", "speculative decoding"),
    ("vllm/spec_decode", "speculative decoding"),
    ("vllm/v1/sample", "sampling"),
    ("vllm/v1/kv_offload", "offloading KV cache"),
    ("vllm/v1/core/sched", "scheduling requests"),
    ("vllm/v1/core", "dividing the KV cache"),
    ("vllm/core", "scheduling requests"),
    ("vllm/v1/executor", "starting the workers"),
    ("vllm/executor", "starting the workers"),
    ("vllm/v1/worker", "setting a worker up or running it"),
    ("vllm/worker", "setting a worker up or running it"),
    ("vllm/v1/engine", "starting or running the engine"),
    ("vllm/engine", "starting or running the engine"),
    ("vllm/reasoning", "reading the model's reasoning"),
    ("vllm/tool_parsers", "reading the model's tool calls"),
    ("vllm/parser", "reading the model's tool calls"),
    ("vllm/entrypoints/cli", "running the command"),
    ("vllm/entrypoints", "answering a request or starting the API"),
    ("vllm/plugins", "loading plugins"),
    ("vllm/sampling_params", "checking a request's sampling parameters"),
    ("vllm/pooling_params", "checking a request's pooling parameters"),
    ("vllm/envs", "reading environment variables"),
)

#: What messages call a setting whose flag is named otherwise. In words, in lower case.
WORDS = {
    "tensor parallelism": "tensor_parallel_size",
    "tensor parallel": "tensor_parallel_size",
    "pipeline parallelism": "pipeline_parallel_size",
    "pipeline parallel": "pipeline_parallel_size",
    "data parallelism": "data_parallel_size",
    "expert parallelism": "enable_expert_parallel",
    "maximum model length": "max_model_len",
    "max model length": "max_model_len",
    "speculative decoding": "speculative_config",
    "cuda graphs": "enforce_eager",
    "microbatching": "enable_dbo",
    "kv connector": "kv_transfer_config",
    "kv transfer": "kv_transfer_config",
    "attention backend": "attention_backend",
    "quantization method": "quantization",
    "max sequence length": "max_model_len",
    "gguf": "load_format",
    "lora": "enable_lora",
}
#: Keys of a JSON argument, as messages name them → the argument.
KEYS = {
    "num_speculative_tokens": "speculative_config",
    "draft_tensor_parallel_size": "speculative_config",
    "cudagraph_mode": "compilation_config",
    "cudagraph_capture_sizes": "compilation_config",
    "kv_connector": "kv_transfer_config",
    "kv_role": "kv_transfer_config",
    "rope_parameters": "hf_overrides",
    "guided_decoding_backend": "structured_outputs_config",
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "dp_size": "data_parallel_size",
    "cache_dtype": "kv_cache_dtype",
}
#: Flags of one word that a message hardly holds by chance; the others count where they are quoted or assigned.
PLAIN = ("dtype", "quantization", "nnodes")

_SWITCH = (
    "enable_",
    "disable_",
    "enforce_",
    "trust_",
    "use_",
    "skip_",
    "no_",
    "allow_",
    "return_",
    "headless",
)
_ENV = re.compile(r"\bVLLM_[A-Z][A-Z0-9_]+\b")
_TAIL = re.compile(r"\[type=.*", re.DOTALL)  # pydantic repeats all that it was given
_CONFIG_CLASS = re.compile(r"\b[A-Z][A-Za-z]+Config\b")
_CODE = re.compile(r"(?<![\w-])(?:--)?[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*(?![\w-])")
_PACKAGE = re.compile(r"(?:site|dist)-packages/(.*)")


def facts_about(event: Event, context: Mapping[str, Any]) -> dict[str, Any]:
    """`part` and `settings` of an exception that vLLM's own code raised; empty for others'.

    Where the log shows no frame, only names that are spelled as in code count.
    `settings` maps a flag (`--max-model-len`) or environment variable to the user's value, None where the log
    does not tell it. `context` holds the episode's facts: `vllm`, `args`.
    """
    file = own_file(event)
    if event.frames and not file:
        return {}
    facts: dict[str, Any] = {}
    if part := part_of(file):
        facts["part"] = part
    if settings := settings_of(_said(event), file, context):
        facts["settings"] = settings
    return facts


def why_of(facts: Mapping[str, Any]) -> str:
    """What `facts_about` found, in one sentence; empty if that is nothing."""
    part, settings = facts.get("part"), facts.get("settings")
    said = f"it concerns {_listed(settings)}" if settings else ""
    if part:
        return f"vLLM's own code raised it while {part}{f', and {said}' if said else ''}."
    return f"{said[:1].upper()}{said[1:]}." if said else ""


def fix_of(facts: Mapping[str, Any], context: Mapping[str, Any]) -> Fix | None:
    """What to look at first: the settings that the message concerns. None if it names none."""
    settings: dict[str, Any] = facts.get("settings") or {}
    if not settings:
        return None
    args = _arguments(context)
    set_, unset, env = {}, [], {}
    for name in settings:
        key = name.lstrip("-").replace("-", "_")
        if not name.startswith("--"):
            env[name] = "<value>"
        elif args.get(key) is True:
            unset.append(key)
        elif not key.startswith(_SWITCH):
            set_[key] = "<value>"
    return Fix(
        do=f"Look at {_listed(settings)}: the message concerns {'it' if len(settings) == 1 else 'them'}",
        run=form.change(set_, unset, env, context),
        safety=Safety.MANUAL,
        note="which value is right depends on what the message asks for",
    )


def own_file(event: Event) -> str:
    """The file of vLLM that raised (`vllm/config/model.py`); empty if other code did, or no frame tells.

    An exception of pydantic's counts as that of the file whose values it checks.
    """
    for row in reversed(event.frames):
        path = frame_parts(row)[0].replace("\\", "/")
        inside = _PACKAGE.search(path)
        if inside and inside[1].startswith("pydantic"):
            continue
        if inside:
            return inside[1] if inside[1].startswith("vllm/") else ""
        rest = path.rpartition("/vllm/")[2]  # a checkout: the folder of the package, not one above it
        return f"vllm/{rest}" if rest != path and not rest.startswith(("lib/", "lib64/")) else ""
    return ""


def part_of(file: str) -> str:
    """What vLLM does in this file, as the rest of a sentence that begins with `while`."""
    return next((words for prefix, words in PARTS if file.startswith(prefix)), "")


def settings_of(text: str, file: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """The settings a message names, in its order, with the user's value or None; at most MOST of them.

    Where it names none, the JSON argument whose values are checked in that file.
    """
    version = str(context.get("vllm") or "")
    args = _arguments(context)
    names: dict[str, int] = {}
    for at, name in _named(text, version, spoken=bool(file)):
        if _taken(name, version):
            names[name] = min(at, names.get(name, at))
    ranked = sorted(names, key=lambda name: (names[name], -len(name)))
    if not ranked and (group := _group(file)) and _taken(group, version):
        ranked = [group]
    found = {flag_of(name): args.get(name) for name in ranked}
    found.update((name, None) for name in _ENV.findall(text))
    return dict(list(found.items())[:MOST])


def _said(event: Event) -> str:
    return _TAIL.sub("", " ".join(event.text.split()))[:MOST_TEXT]


def _named(text: str, version: str, spoken: bool) -> Iterator[tuple[int, str]]:
    """(offset, argument) of each name in a text, as code spells it or, if `spoken`, in words too."""
    flags = known_flags()
    plain = text.lower()
    for found in _CODE.finditer(plain):
        written = found[0]
        name = written.lstrip("-").replace("-", "_")
        if name in KEYS and takes(KEYS[name], version) is not False:
            yield found.start(), KEYS[name]
        if flag_of(name) not in flags:
            continue
        marked = written.startswith("--") or "_" in name or name in PLAIN
        if marked or _given(plain, name, *found.span()):
            yield found.start(), name
    if not spoken:
        return
    plain = plain.replace("-", " ")
    for words, name in _spoken():
        at = plain.find(words)
        while at >= 0:
            if _whole(plain, at, at + len(words)):
                yield at, name
                break
            at = plain.find(words, at + 1)
    for found in _CONFIG_CLASS.finditer(text):
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", found[0]).lower()
        if flag_of(name) in flags:
            yield found.start(), name


@lru_cache(maxsize=1)
def _spoken() -> tuple[tuple[str, str], ...]:
    """(words, argument): the arguments of several words, in words; `enable-` and `disable-` may be missing."""
    spoken = dict(WORDS)
    for flag in known_flags():
        words = flag.lstrip("-").split("-")
        name = "_".join(words)
        if len(words) > 1:
            spoken.setdefault(" ".join(words), name)
        if len(words) > 2 and words[0] in ("enable", "disable"):
            spoken.setdefault(" ".join(words[1:]), name)
    return tuple(spoken.items())


def _given(text: str, name: str, start: int, end: int) -> bool:
    """Whether a word is given a value (`task='embed'`) or stands in quotes, as an argument's name does."""
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    return after == "=" or (before in ("`", "'", '"') and before == after and name != "model")


def _whole(text: str, start: int, end: int) -> bool:
    """Whether words are no part of a longer word or name."""
    return not re.match(r"\w", text[max(start - 1, 0) : start]) and not re.match(r"\w", text[end : end + 1])


def _taken(name: str, version: str) -> bool:
    """Whether to name a setting: not one that was gone before the log's version."""
    if takes(name, version) is not False:
        return True
    having = versions_with(name)
    return bool(having) and number(having[0]) > number(version)


def _group(file: str) -> str:
    """The JSON argument whose values are checked in a file: `vllm/config/speculative.py` → `speculative_config`."""
    found = re.match(r"vllm/config/(\w+)\.py$", file)
    name = f"{found[1]}_config" if found else ""
    return name if name and flag_of(name) in known_flags() else ""


def _arguments(context: Mapping[str, Any]) -> dict[str, Any]:
    args = context.get("args")
    return args if isinstance(args, dict) else {}


def _listed(settings: Mapping[str, Any]) -> str:
    """`--max-model-len (now 8192) and --dtype`."""
    shown = [
        name + (f" (now {_short(value)})" if value is not None else "") for name, value in settings.items()
    ]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _short(value: Any) -> str:
    text = plain(value)
    return text if len(text) <= 60 else text[:59] + "…"
