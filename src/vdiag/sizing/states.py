"""The fixed state that Mamba, linear-attention and short-convolution layers keep of a request, as vLLM shapes it."""

from __future__ import annotations

from dataclasses import dataclass

from vdiag.sizing.config import HEADS, HIDDEN, Fields, Unsizable


@dataclass(frozen=True)
class State:
    """Elements of the whole model's layer: what the convolution keeps, and what the recurrence keeps."""

    kind: str
    conv: int
    recurrent: int
    grouped: int = 0  # of `conv`, in groups that are copied where there are fewer than ranks
    groups: int = 1
    recurrent_dtype: str = ""  # empty: that of the model
    checkpoints: int = 0  # blocks more that a request holds while its prompt is read

    def conv_on(self, tp: int) -> int:
        """Elements of the convolution's state on one of `tp` ranks."""
        groups = self.groups if self.groups % tp == 0 else tp  # each rank needs those of its heads
        return (self.conv - self.grouped + self.grouped * groups // self.groups) // tp

    def recurrent_on(self, tp: int) -> int:
        return self.recurrent // tp


def state_of(fields: Fields) -> State:
    """The state of each recurrent layer; raises Unsizable where the model's form is not known."""
    hidden = fields.whole(*HIDDEN)
    kind = fields.type
    if kind in ("mamba", "falcon_mamba"):
        inner = fields.whole("intermediate_size", "d_inner", default=2 * hidden)
        return _mamba1(inner, fields.whole("state_size", default=16), fields.whole("conv_kernel", default=4))
    if kind == "jamba":
        inner = fields.whole("mamba_expand", default=2) * hidden
        return _mamba1(
            inner, fields.whole("mamba_d_state", default=16), fields.whole("mamba_d_conv", default=4)
        )
    if kind in ("lfm2", "lfm2_moe", "lfm2_text"):
        width = fields.whole("conv_dim", default=hidden)
        return State("short convolution", width * (fields.whole("conv_L_cache", default=3) - 1), 0)
    if kind == "kimi_linear":
        linear = fields.under("linear_attn_config")
        heads, size = linear.whole("num_heads"), linear.whole("head_dim")
        kernel = linear.whole("short_conv_kernel_size", default=4)
        return State("KDA", 3 * heads * size * (kernel - 1), heads * size * size, recurrent_dtype="float32")
    if fields.get("linear_num_value_heads") is not None:
        keys = fields.whole("linear_num_key_heads") * fields.whole("linear_key_head_dim")
        heads, size = fields.whole("linear_num_value_heads"), fields.whole("linear_value_head_dim")
        kernel = fields.whole("linear_conv_kernel_dim", default=4)
        return State(
            "gated delta net",
            (2 * keys + heads * size) * (kernel - 1),
            heads * size * fields.whole("linear_key_head_dim"),
            recurrent_dtype=fields.text("mamba_ssm_dtype"),
        )
    if kind.startswith(("minimax", "bailing")):
        heads = fields.whole(*HEADS)
        size = fields.whole("head_dim", default=hidden // heads)
        return State("linear attention", 0, heads * size * size)
    return _mamba2(fields, hidden)


def _mamba1(inner: int, size: int, kernel: int) -> State:
    return State("Mamba", inner * (kernel - 1), inner * size)


def _mamba2(fields: Fields, hidden: int) -> State:
    heads = fields.whole("mamba_n_heads", "n_mamba_heads", "mamba_num_heads", "num_heads", default=0, least=0)
    if not heads:
        raise Unsizable(
            f"{fields.name}: {fields.path}model_type {fields.type or 'is missing'}: it has layers that keep a state, "
            "of a form that vdiag does not know"
        )
    inner_default = fields.whole("mamba_expand", "expand", default=2) * hidden
    size = fields.whole(
        "mamba_d_head", "mamba_headdim", "mamba_head_dim", "head_dim", default=inner_default // heads
    )
    if fields.type.startswith("nemotron"):
        inner = heads * size
    else:
        inner = fields.whole("mamba_d_ssm", default=inner_default)
    state = fields.whole("mamba_d_state", "ssm_state_size", "state_size", default=128)
    groups = fields.whole("mamba_n_groups", "mamba_ngroups", "n_groups", default=1)
    kernel = fields.whole("mamba_d_conv", "conv_kernel", default=4)
    grouped = 2 * groups * state * (kernel - 1)
    nemotron = fields.text("mamba_ssm_cache_dtype") or "float32" if fields.type.startswith("nemotron") else ""
    return State(
        "Mamba 2",
        inner * (kernel - 1) + grouped,
        heads * size * state,
        grouped,
        groups,
        recurrent_dtype=nemotron,
        checkpoints=1,
    )
