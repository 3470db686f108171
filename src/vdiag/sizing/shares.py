"""The names of what memory goes to, as `Share.what` has them. Which of them there are depends on what is known."""

WEIGHTS = "weights"
CONSUMED = "weights and non-torch"  # where only the sum of both is known
ACTIVATIONS = "activations"
NON_TORCH = "non-torch"
GRAPHS = "CUDA graphs"
KV = "KV cache"
REST = "unaccounted"  # of a budget, what no figure names

# Of a card on which memory ran out.
TENSORS = "tensors"
RESERVED = "reserved, unused"
LIBRARIES = "CUDA context, NCCL, libraries"
FREE = "free"
OTHERS = "held by others at start"
UNTOLD = "in use, not told by whom"
