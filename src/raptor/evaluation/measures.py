"""Measures of how close a surrogate's tokens are to its teacher's.

`@measure` registers a function from the tokens of both at one layer to one number per image and token. Its mean, with
an interval over images, is then in result.json under the measure's name, in the table of the terminal where it has a
title, and in the page's table of surrogates with `page=True`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from raptor.runtime.device import doubled

States = Float[Tensor, "batch tokens width"]
ByToken = Float[Tensor, "batch tokens"]


class TokenStates:
    """Tokens of a batch of images at one layer, in single precision or better.

    Parameters
    ----------
    teacher, surrogate
        States of the teacher, and those of the surrogate rolled out from layer 0.
    at_input
        States of the teacher at the input of the phase.
    embedding
        States of the teacher at layer 0.
    one_step
        States that the surrogate computes in one step from the teacher's states at the layer before; None where they
        are not computed.
    """

    def __init__(
        self, teacher: States, surrogate: States, at_input: States, embedding: States, one_step: States | None = None
    ):
        self.teacher, self.surrogate, self.at_input = teacher, surrogate, at_input
        self.embedding, self.one_step = embedding, one_step

    @cached_property
    def squared_error(self) -> ByToken:
        """Squared norm of the difference between teacher and surrogate, in double precision."""
        return squared_distance(self.teacher, self.surrogate)

    @cached_property
    def error(self) -> ByToken:
        """Norm of the difference between teacher and surrogate, in double precision."""
        return self.squared_error.sqrt()

    @cached_property
    def centred_teacher(self) -> States:
        """The teacher's tokens minus their mean over features."""
        return self.teacher - self.teacher.mean(dim=-1, keepdim=True)

    @cached_property
    def centred_surrogate(self) -> States:
        """The surrogate's tokens minus their mean over features."""
        return self.surrogate - self.surrogate.mean(dim=-1, keepdim=True)


@dataclass(frozen=True)
class Measure:
    """A measure by layer and token group.

    Parameters
    ----------
    title
        Name of its column in tables; None leaves it out of them.
    page
        Whether the page's table of surrogates shows it at the last layer.
    by_token
        Function from `TokenStates` to one number per image and token, shape (batch, tokens). None for the measures
        that `trajectory_fidelity` computes itself, because they compare images or divide sums over images.
    """

    title: str | None
    page: bool
    by_token: Callable[[TokenStates], Tensor] | None


# In the order of tables. Ratios of sums and the shuffled correlation compare images: `fidelity.py` computes them.
MEASURES: dict[str, Measure] = {
    "r2": Measure("R2", True, None),
    "robust_r2": Measure("robust R2", False, None),
    "r2_identity": Measure("R2 of identity", False, None),
    "skill": Measure("skill", True, None),
    "phase_skill": Measure(None, False, None),
    "update_r2": Measure("update R2", False, None),
}
Function = TypeVar("Function", bound=Callable[[TokenStates], Tensor])


def measure(name: str, title: str | None = None, page: bool = False) -> Callable[[Function], Function]:
    """Return a decorator that registers a function as a measure.

    Parameters
    ----------
    name
        Key of the measure in result.json.
    title, page
        As in `Measure`.
    """

    def register(by_token: Function) -> Function:
        MEASURES[name] = Measure(title, page, by_token)
        return by_token

    return register


@measure("pearson2", "pearson2")
def pearson2(states: TokenStates) -> ByToken:
    """Return the squared correlation over features: the R2 of the paper's appendix."""
    return token_cosine(states.centred_teacher, states.centred_surrogate).square()


MEASURES["pearson2_shuffled"] = Measure(None, False, None)


@measure("cosine")
def cosine(states: TokenStates) -> ByToken:
    """Return the cosine between the tokens."""
    return token_cosine(states.teacher, states.surrogate)


@measure("epsilon")
def epsilon(states: TokenStates) -> ByToken:
    """Return the norm of the error."""
    return states.error


@measure("relative_epsilon", "relative error")
def relative_epsilon(states: TokenStates) -> ByToken:
    """Return the norm of the error over the norm of the teacher's token."""
    return states.error / squared_norm(states.teacher).sqrt().clamp(min=1e-300)


def token_cosine(a: Float[Tensor, "*n width"], b: Float[Tensor, "*n width"]) -> Float[Tensor, "*n"]:
    """Return the cosine over the last axis, in double precision; 0 where a vector is 0."""
    return _product(a, b) / (_product(a, a) * _product(b, b)).sqrt().clamp(min=1e-300)


def squared_norm(a: Float[Tensor, "*n width"]) -> Float[Tensor, "*n"]:
    """Return the squared norm over the last axis, in double precision."""
    return _product(a, a)


def squared_distance(a: Float[Tensor, "*n width"], b: Float[Tensor, "*n width"]) -> Float[Tensor, "*n"]:
    """Return the squared norm of the difference over the last axis, in double precision."""
    return squared_norm(a - b)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product over the last axis; only the result is converted, copies of all states are slow."""
    # As batched products: several times faster than torch's cosine_similarity.
    return doubled(torch.einsum("...d,...d->...", a, b))
