"""A model's `config.json` as checked fields: every complaint names the field and where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

LONGEST_CONFIG = 16 << 20  # bytes; a config.json has kilobytes
MOST_LAYERS = 10_000
MOST = 1 << 40  # no number of a model is larger
NESTED = ("text_config", "llm_config", "language_config", "thinker_config")

LAYERS = ("decoder_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("decoder_attention_heads", "num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "hidden_dim")
LENGTH = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# ways to stretch positions whose factor is in the longest context already
STRETCHED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")


class Unsizable(ValueError):
    """This config cannot be read into sizes; the message says what is missing or wrong, and where."""


def parsed(data: bytes, name: str) -> dict[str, Any]:
    """The JSON object of a config file.

    Raises:
        Unsizable: it is no JSON object, or far too long for a config.
    """
    if len(data) > LONGEST_CONFIG:
        raise Unsizable(f"{name}: longer than {LONGEST_CONFIG >> 20} MiB, so it is no config.json")
    if not data.strip():
        raise Unsizable(f"{name}: empty, so it is no config.json")
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise Unsizable(f"{name}: nested too deeply for a config.json") from None
    except json.JSONDecodeError as error:
        raise Unsizable(f"{name}: not JSON: {error}") from None
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        raise Unsizable(f"{name}: not JSON: {str(error)[:100]}") from None
    if not isinstance(found, dict):
        raise Unsizable(f"{name}: a config.json holds an object in {{…}}, this one holds {_kind(found)}")
    return found


class Fields:
    """The fields of a config, or of the part of it that tells of the language model.

    What a file leaves out is what `transformers` fills in for that `model_type` (`defaults.json`).
    """

    def __init__(self, raw: Mapping[str, Any], name: str, path: str = "") -> None:
        self.raw = raw
        self.name = name
        self.path = path
        self.type = _text(raw.get("model_type"))
        self.defaults: Mapping[str, Any] = _defaults().get(self.type, {})

    def get(self, *names: str) -> Any:
        """The first of these fields that is there and not null; an explicit null stands against a default."""
        return next(iter(self._found(names)), (None, ""))[0]

    def _found(self, names: tuple[str, ...]) -> Iterator[tuple[Any, str]]:
        source = self.raw if any(name in self.raw for name in names) else self.defaults
        return ((value, name) for name in names if (value := source.get(name)) is not None)

    def whole(self, *names: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        """A whole number.

        Raises:
            Unsizable: it is missing and has no default, or is no whole number in the range.
        """
        for value, named in self._found(names):
            return self.checked(named, value, least, most)
        if default is None:
            raise Unsizable(f"{self.name}: no field {' or '.join(self.path + name for name in names[:3])}")
        return default

    def checked(self, named: str, value: object, least: int = 1, most: int = MOST) -> int:
        """`value` of the field as a whole number in the range; raises Unsizable."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unsizable(f"{self.name}: {self.path}{named} is {_kind(value)}, a whole number is needed")
        if not least <= value <= most:
            raise Unsizable(f"{self.name}: {self.path}{named} is {_short(value)}, outside {least} to {most}")
        return value

    def number(self, name: str, default: float) -> float:
        """A number that may have a fraction; raises Unsizable where it is none, negative or not finite."""
        value = self.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST:
            raise Unsizable(f"{self.name}: {self.path}{name} is {_kind(value)}, no positive number")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A yes or no; anything else counts as the default."""
        value = self.get(name)
        return value if isinstance(value, bool) else default

    def text(self, *names: str) -> str:
        """A text; empty where there is none."""
        return _text(self.get(*names))

    def listed(self, name: str) -> list[Any]:
        """A list; empty where there is none."""
        value = self.get(name)
        return value if isinstance(value, list) else []

    def under(self, name: str) -> Fields:
        """The fields of an object in this one; of an empty one where there is none."""
        value = self.get(name)
        return Fields(value if isinstance(value, dict) else {}, self.name, f"{self.path}{name}.")


class Config:
    """A config: its own fields and those of its language model."""

    def __init__(self, raw: Mapping[str, Any], name: str) -> None:
        self.top = Fields(raw, name)
        self.model = _language(self.top)
        self.name = name
        architectures = self.top.listed("architectures")
        self.architecture = _text(architectures[0]) if architectures else ""

    @property
    def multimodal(self) -> bool:
        """Whether the model has more parts than its language model."""
        return any(
            isinstance(self.top.get(part), dict)
            for part in ("vision_config", "audio_config", "visual", "vision_model")
        )

    @property
    def dtype(self) -> str:
        """The type of its numbers: `bfloat16`, `float16` or `float32` (which vLLM loads as 16 bits)."""
        for fields in (self.model, self.top):
            said = fields.text("dtype", "torch_dtype").removeprefix("torch.")
            if said:
                return said if said in ("bfloat16", "float16", "float32") else "bfloat16"
        return "bfloat16"

    @property
    def quantization(self) -> Fields | None:
        """How the weights are quantised; None where they are not."""
        for fields in (self.top, self.model):
            for name in ("quantization_config", "compression_config"):
                if isinstance(fields.get(name), dict) and fields.get(name):
                    return fields.under(name)
        return None

    @property
    def length(self) -> int | None:
        """The longest context the model was made for, in tokens."""
        said = [self.model.get(name) for name in LENGTH]
        longest = min(
            (
                int(n)
                for n in said
                if isinstance(n, (int, float)) and not isinstance(n, bool) and 1 <= n < MOST
            ),
            default=None,
        )
        return longest and int(longest * self._stretched())

    def _stretched(self) -> float:
        """By how much the positions are stretched where the longest context does not count it yet."""
        for name in ("rope_parameters", "rope_scaling"):
            rope = self.model.under(name)
            kind = rope.text("rope_type", "type")
            if kind and kind not in STRETCHED and not self.model.type.startswith("gemma3"):
                return min(max(rope.number("factor", 1.0), 1.0), 1024.0)
        return 1.0


def _language(top: Fields) -> Fields:
    """Where the language model's fields stand: in a part of their own, or at the top."""
    for name in NESTED:
        if isinstance(top.get(name), dict):
            part = _language(top.under(name)) if top.path.count(".") < 3 else top.under(name)
            if part.get(*LAYERS) is not None or top.get(*LAYERS) is None:
                return part
    return top


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _short(value: object) -> str:
    try:
        text = str(value)
    except ValueError:  # thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 30 else f"{text[:20]}…"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _short(value)
    if isinstance(value, str):
        return f"the text {_short(value)!r}"
    return "a list" if isinstance(value, list) else "an object"


_LOADED: dict[str, dict[str, Any]] = {}


def _defaults() -> Mapping[str, Mapping[str, Any]]:
    if not _LOADED:
        text = resources.files("vdiag.sizing").joinpath("defaults.json").read_text(encoding="utf-8")
        _LOADED.update(json.loads(text))
    return _LOADED
