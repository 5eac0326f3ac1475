"""Training on a GPU: compiled layers, and batches replayed as CUDA graphs."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from fairseq.distributed.utils import get_data_parallel_world_size
from torch import Tensor

from ..kernels.attention import use_short_attention
from ..kernels.compilation import can_compile, enable_compilation
from ..kernels.cuda_graphs import GraphedStep
from ..text.dictionary import Vocabulary
from .criterion import AiaynLabelSmoothedCrossEntropy
from .model import AiaynTransformer
from .optimizer import AiaynAdam

logger = logging.getLogger(__name__)

#: Inputs that a graph supports; it ignores src_lengths.
NET_INPUT_KEYS = {"src_tokens", "src_lengths", "prev_output_tokens"}
#: Maximum padding of the shorter side, as a fraction of the longer side's length.
MAX_PADDING = 1 / 8


def prepare_gpu(cfg: Any, model: Any) -> None:
    """Compile the layers and use the plugin's GPU kernel, unless --no-compile is given."""
    enabled = _is_compiled(cfg, model)
    enable_compilation(enabled)
    use_short_attention(enabled)
    if enabled:
        for stack in (model.encoder, model.decoder):
            for layer in stack.layers:
                layer.compile(dynamic=True)
        logger.info("compiling the layers, which takes one to three minutes")


def _is_compiled(cfg: Any, model: Any) -> bool:
    """Return whether to compile a model; a subclass may change what a layer does."""
    return (
        not cfg.common.cpu
        and not cfg.task.get("no_compile")
        and type(model) is AiaynTransformer
        and not cfg.model.checkpoint_activations
        and can_compile()  # last, because it warns
    )


def can_capture(cfg: Any, model: Any, criterion: Any, optimizer: Any) -> bool:
    """Return whether CUDA graphs can capture the forward and backward pass.

    Requires the paper's components, a single process, and float32 or --bf16: other precisions wrap
    the optimizer and use a dynamic loss scale.
    """
    return (
        _is_compiled(cfg, model)
        and get_data_parallel_world_size() == 1  # distributed_world_size counts all visible GPUs
        and type(criterion) is AiaynLabelSmoothedCrossEntropy
        and not criterion.needs_logits
        and type(optimizer) is AiaynAdam
    )


class GraphedTrainStep:
    """FairseqTask.train_step, replayed as CUDA graphs (GraphedStep)."""

    def __init__(self, train_step: Callable, model: Any, criterion: Any, optimizer: Any) -> None:
        """train_step: FairseqTask's; the rest are its arguments."""

        def step(source: Tensor, shifted: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
            net_input = {"src_tokens": source, "src_lengths": None, "prev_output_tokens": shifted}
            sample = {"net_input": net_input, "target": target, "ntokens": 0}
            loss, _, log = train_step(sample, model, criterion, optimizer, 0)
            return loss, log["nll_loss"]

        self.arguments = model, criterion, optimizer
        self.step = GraphedStep(step, model)
        self.max_length = min(model.encoder.max_positions(), model.decoder.max_positions())
        optimizer.keeps_gradients = True

    def __call__(self, sample: Mapping[str, Any]) -> tuple[Tensor, float, dict]:
        """Return what FairseqTask.train_step returns for a batch."""
        net = sample["net_input"]
        sides = net["src_tokens"], net["prev_output_tokens"], sample["target"]
        loss, nll = self.step(*pad_equally(*sides, max_length=self.max_length))
        _, criterion, _ = self.arguments
        return loss, *criterion.build_log(loss, nll, sample)

    @staticmethod
    def can_replay(sample: Mapping[str, Any]) -> bool:
        """Return whether a graph supports a batch's inputs."""
        return sample["net_input"].keys() == NET_INPUT_KEYS


def pad_equally(source: Tensor, *target: Tensor, max_length: int) -> list[Tensor]:
    """Pad the shorter side of a batch to the length of the other, if that adds little.

    source: (batch, m); target: tensors (batch, n). Batches are sorted by their longer side, so
    most of those with the same length then have the same shape.
    """
    sides = [source, *target]
    length = max(x.size(1) for x in sides)
    shortest = min(x.size(1) for x in sides)
    if shortest < (1 - MAX_PADDING) * length or length > max_length:
        return sides
    return [F.pad(x, (0, length - x.size(1)), value=Vocabulary.pad) for x in sides]
