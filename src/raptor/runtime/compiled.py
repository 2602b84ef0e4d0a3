"""Blocks that run compiled for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch._dynamo
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError

from raptor.errors import OptionError, one_line

BACKEND = "inductor"
VARIANTS = 256  # most compiled variants of a block


@contextmanager
def compile_blocks(blocks: Iterable[nn.Module]) -> Iterator[None]:
    """Run blocks compiled with `torch.compile`, and as they were after the context.

    Parameters of the blocks, their names and their classes stay the same. Raises an OptionError if a block cannot be
    compiled, as where no C++ compiler is installed.

    Parameters
    ----------
    blocks
        Modules that are called; each is compiled when it is first called.
    """
    modules = list(dict.fromkeys(blocks))
    for block in modules:
        block.compile(backend=BACKEND, dynamic=False)
    try:
        # A tied block is compiled once for every layer of its phase.
        with torch._dynamo.config.patch(recompile_limit=VARIANTS):
            yield
    except (BackendCompilerFailed, InductorError) as error:
        cause = error.__cause__ or error
        raise OptionError(
            f"the blocks cannot be compiled ({one_line(cause)}); leave out --compile, or install what torch.compile "
            "needs, such as a C++ compiler"
        ) from error
    finally:
        for block in modules:
            block._compiled_call_impl = None
