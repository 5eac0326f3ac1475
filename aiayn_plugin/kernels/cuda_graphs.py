"""CUDA graphs: a GPU replays all kernels of a training step without the CPU launching each."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .device import is_out_of_memory

logger = logging.getLogger(__name__)

#: Graphs to keep: those of base take 5 MB each, and a corpus may have thousands of shapes.
MAX_GRAPHS = 256

#: Computes a loss and its gradients from a batch's tensors; returns tensors such as the loss.
Step = Callable[..., tuple[Tensor, ...]]


class Graph(NamedTuple):
    """A captured step, the tensors that it reads and those that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor]
    buffers: list[Tensor]  #: the model's at capture, which the graph reads even if replaced


class GraphedStep:
    """A training step that is captured as a CUDA graph when the shapes of its inputs recur.

    The step must add to the gradients of the model's parameters in place, must not synchronise with
    the GPU, and must depend on nothing but its inputs, the model and torch's random numbers:
    whatever else it reads is frozen.
    """

    def __init__(self, step: Step, model: nn.Module) -> None:
        self.step, self.model = step, model
        self._parameters = list(model.parameters())
        self._max_graphs = MAX_GRAPHS
        self._reset()

    @property
    def graph_count(self) -> int:
        """The number of graphs held now."""
        return len(self._graphs)

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Compute the step: eagerly the first two times, then as a replay of its graph."""
        self._drop_stale_graphs()
        shapes = tuple(x.shape for x in inputs)
        if shapes not in self._graphs:
            return self._run(shapes, inputs)
        graph = self._graphs[shapes]
        for static, x in zip(graph.inputs, inputs, strict=True):
            static.copy_(x)
        graph.graph.replay()
        return tuple(x.clone() for x in graph.outputs)

    def _reset(self) -> None:
        self._seen: set[tuple] = set()  # shapes computed, which are captured the next time
        self._graphs: dict[tuple, Graph] = {}
        self._gradients: list[Tensor | None] = []
        self._pool: Any = None  # shared, since graphs run one after the other

    def _drop_stale_graphs(self) -> None:
        """Drop all graphs if a gradient is no longer the tensor that they add to."""
        gradients = [p.grad for p in self._parameters]
        if any(a is not b for a, b in zip(gradients, self._gradients, strict=False)):
            self._reset()
        self._gradients = gradients

    def _run(self, shapes: tuple, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Compute the step eagerly, and capture it if its shapes were computed before."""
        captures = shapes in self._seen and self.graph_count < self._max_graphs
        if captures:
            inputs = tuple(x.clone() for x in inputs)  # the tensors that the graph reads
        try:
            # Detached, because a capture fails if it reuses autograd nodes of another stream.
            outputs = tuple(x.detach() for x in self.step(*inputs))
        except RuntimeError as error:
            if is_out_of_memory(error) and self.graph_count:
                self._stop_capturing()
            raise
        self._gradients = [p.grad for p in self._parameters]
        self._seen.add(shapes)
        if captures:
            # Nothing can be compiled during a capture; the call above has compiled everything.
            try:
                self._graphs[shapes] = self._capture(inputs)
            except RuntimeError as error:  # CUDA also raises it when instantiating the graph
                if not is_out_of_memory(error):
                    raise
                self._stop_capturing()
        return outputs

    def _capture(self, inputs: tuple[Tensor, ...]) -> Graph:
        """Return a graph of the step; nothing is computed yet."""
        graph = torch.cuda.CUDAGraph()
        with (
            torch.cuda.stream(torch.cuda.current_stream()),  # restored even if the capture fails
            # thread_local: meanwhile a data loader may allocate pinned memory in its own thread.
            torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"),
        ):
            outputs = self.step(*inputs)
        self._pool = graph.pool()
        buffers = list(self.model.buffers())
        return Graph(graph, inputs, [x.detach() for x in outputs], buffers)

    def _stop_capturing(self) -> None:
        """Free the memory of all graphs, and capture no more."""
        logger.warning(
            "not enough GPU memory for CUDA graphs: training continues without them, which is "
            "slower; a smaller --max-tokens avoids this"
        )
        torch.cuda.synchronize()  # a replay may still use the memory
        self._reset()
        self._max_graphs = 0
        torch.cuda.empty_cache()
