"""torch.compile on a GPU: elementwise operations and reductions fused into a few Triton kernels."""

import functools
import logging
import os
import shutil
import sysconfig
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

logger = logging.getLogger(__name__)

_enabled = False  # set by enable_compilation


@functools.cache
def can_compile() -> bool:
    """Return whether torch can compile for the GPU.

    It does so with Triton, which needs a C compiler and Python's headers.
    """
    if not torch.cuda.is_available():
        return False
    from torch.utils._triton import has_triton  # also checks the GPU

    if not has_triton():
        logger.warning(
            "the model is not compiled for the GPU, which makes it slower: Triton is missing or "
            "does not support this GPU"
        )
        return False
    compilers = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]  # as in Triton
    scheme = sysconfig.get_default_scheme().replace("posix_local", "posix_prefix")
    header = Path(sysconfig.get_paths(scheme)["include"], "Python.h")
    if any(map(shutil.which, compilers)) and header.is_file():
        return True
    logger.warning(
        "the model is not compiled for the GPU, which makes it slower: Triton needs %s and %s",
        " or ".join(compilers),
        header,
    )
    return False


def enable_compilation(enabled: bool) -> None:
    """Enable or disable compile_on_gpu; it is disabled by default."""
    global _enabled
    _enabled = enabled
    if enabled:
        # Layers are recompiled for a batch size or length of 1, and for long sentences; all layers
        # of a process share this limit.
        torch._dynamo.config.recompile_limit = 64
        # With several GPUs, torch would split compiled code at DDP's buckets, to overlap
        # communication with the backward pass. Compiling layers one by one already allows this.
        torch._dynamo.config.optimize_ddp = False


def compile_on_gpu(dynamic: bool | None = None) -> Callable[[Callable], Callable]:
    """Decorate a function whose first argument is a tensor: compile it for tensors on a GPU.

    dynamic: as for torch.compile. Has no effect before enable_compilation.
    """

    def decorate(function: Callable) -> Callable:
        @functools.cache  # not at import, since loading the compiler takes a second
        def compiled() -> Callable:
            return torch.compile(function, dynamic=dynamic)

        @functools.wraps(function)
        def call(x: torch.Tensor, *args: Any) -> Any:
            return (compiled() if _enabled and x.is_cuda else function)(x, *args)

        return call

    return decorate


def without_compilation() -> AbstractContextManager:
    """Return a context in which compiled functions and layers run uncompiled."""
    return torch.compiler.set_stance("force_eager") if _enabled else nullcontext()
