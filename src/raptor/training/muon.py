r"""Muon: momentum that is orthogonalised before it is applied.

torch's own Muon orthogonalises in bfloat16; on CPUs without fast bfloat16 products its step takes longer than
the rest of the training step. This one uses the precision of the weights, and one batched product for all
matrices of a shape.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Coefficients of the quintic iteration by K. Jordan (2024): they bring all singular values into about 0.7 to 1.2
# within five steps, faster than coefficients that would converge to 1.
QUINTIC = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalised(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    r"""Return U V^T approximately, for each matrix U S V^T.

    With X_0 = M / |M|_F, iterates X <- a X + (b A + c A A) X, A = X X^T, which acts on the singular values
    alone: s <- a s + b s^3 + c s^5.
    """
    a, b, c = QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    wide = x.shape[2] >= 2 * x.shape[1]
    gram, whole = x @ x.mT, None
    for index in range(ITERATIONS):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        last = index == ITERATIONS - 1
        if wide:
            # All factors are polynomials of the first Gram matrix and commute: they are multiplied among themselves,
            # which are small, and the long matrix is touched at the end alone.
            whole = factor if whole is None else factor @ whole
            gram = gram if last else factor @ gram @ factor
        else:
            x = factor @ x
            gram = gram if last else x @ x.mT
    x = x if whole is None else whole @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    r"""Nesterov momentum, orthogonalised, with decoupled weight decay; for weight matrices alone.

    Parameters
    ----------
    params
        Matrices, or groups of them. A group may have `pieces`: how many equal parts the rows of each matrix
        fall into (3 for fused query, key and value), each made orthogonal on its own.
    lr
        Learning rate. An update is scaled by 0.2 sqrt(max(rows, columns)), which gives its entries the
        root mean square that AdamW's have, so that rates are of AdamW's size (Liu et al. 2025).
    momentum, weight_decay
        As usual.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "pieces": 1})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for parameters in by_shape.values():
                self._step_alike(parameters, group)

    def _step_alike(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        """Update matrices of one shape together."""
        wanted = torch.stack([self._momentum(parameter, group["momentum"]) for parameter in parameters])
        updates = orthogonalised(wanted.flatten(0, 1).unflatten(0, (len(parameters) * group["pieces"], -1)))
        updates *= 0.2 * max(updates.shape[1:]) ** 0.5
        for parameter, update in zip(parameters, updates.reshape(wanted.shape), strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """Return Nesterov's look-ahead of the running mean of gradients."""
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)
