"""Mends of layers: of fairseq's own Transformer, and of torch's attention on a GPU."""

import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase


def without_fast_path(layer: type = TransformerEncoderLayerBase) -> None:
    """Have fairseq's encoder compute its layers itself.

    Once a checkpoint is loaded, fairseq 0.12.2 calls a function of torch in their place, with
    arguments that torch has refused since 1.13: its own models could not translate. Later versions
    of fairseq call it no more. Can go with fairseq 0.12.2.
    """
    if "_load_from_state_dict" in vars(layer):  # it sets the attribute that asks for the function
        never = property(lambda self: False, lambda self, loaded: None)
        layer.load_to_BT = never  # type: ignore[attr-defined]


def without_cudnn_attention() -> None:
    """Keep torch's attention on a GPU from being cuDNN's.

    On GPUs from the H100 on, torch prefers cuDNN's, which makes a plan for each new shape of its
    inputs: tens of milliseconds, for nearly every batch of sentences. torch's flash and
    memory-efficient kernels take any shape at once. Can go when cuDNN's plans do not depend on the
    lengths.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
