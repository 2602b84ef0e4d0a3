"""The classifiers of transformers' ViTs, on tokens after the final norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from raptor.core.flow import Head
from raptor.core.tokens import TokenLayout
from raptor.models.teachers import pooling

Build = Callable[[Any, nn.Module, TokenLayout], Head]


def _on(pool: pooling.Pool) -> Build:
    """Return a builder for a classifier on tokens that are pooled in this way."""
    return lambda wrapper, base, layout: lambda tokens: wrapper.classifier(pool(layout, tokens))


def _on_pooler(wrapper: Any, base: Any, layout: TokenLayout) -> Head:
    """Build a classifier on the output of the model's pooler (a norm of the mean patch token, or cls)."""
    return lambda tokens: wrapper.classifier(base.pooler(tokens))


def _two_heads(wrapper: Any, base: Any, layout: TokenLayout) -> Head:
    """Build the classifier of DeiT: the mean of one on cls and one on the distillation token."""

    def classify(tokens: Tensor) -> Tensor:
        first, second = tokens[:, layout.where("cls")], tokens[:, layout.where("register")]
        return (wrapper.cls_classifier(first[:, 0]) + wrapper.distillation_classifier(second[:, 0])) / 2

    return classify


CLASSIFIERS: dict[str, Build] = {
    "ViTForImageClassification": _on(pooling.cls),
    "DeiTForImageClassification": _on(pooling.cls),
    "DeiTForImageClassificationWithTeacher": _two_heads,
    "Dinov2ForImageClassification": _on(pooling.cls_and_mean_patch),
    "Dinov2WithRegistersForImageClassification": _on(pooling.cls_and_mean_patch),
    "CLIPForImageClassification": _on(pooling.mean_patch),
    "SiglipForImageClassification": _on(pooling.mean_patch),
    "BeitForImageClassification": _on_pooler,
    "Data2VecVisionForImageClassification": _on_pooler,
    "IJepaForImageClassification": _on(pooling.mean_patch),
}


def classifier_of(wrapper: nn.Module, base: nn.Module, layout: TokenLayout) -> Head | None:
    """Return the classifier of `wrapper` on the tokens of `base`, or None if there is none."""
    build = CLASSIFIERS.get(type(wrapper).__name__)
    return None if build is None else build(wrapper, base, layout)
