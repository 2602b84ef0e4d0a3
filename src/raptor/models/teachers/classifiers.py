"""The classifiers that `transformers` puts on its ViTs, on tokens after the final norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from raptor.flow import Head
from raptor.models.teachers import pooling
from raptor.tokens import TokenLayout

Build = Callable[[Any, nn.Module, TokenLayout], Head]


def _on(pool: pooling.Pool) -> Build:
    """Build the classifier that takes the tokens pooled in this way."""
    return lambda wrapper, base, layout: lambda tokens: wrapper.classifier(pool(layout, tokens))


def _on_pooler(wrapper: Any, base: Any, layout: TokenLayout) -> Head:
    """Build the classifier that takes the model's own pooler: a norm of the mean patch, or cls."""
    return lambda tokens: wrapper.classifier(base.pooler(tokens))


def _two_heads(wrapper: Any, base: Any, layout: TokenLayout) -> Head:
    """Build DeiT's pair: the mean of a classifier on cls and one on the distillation token."""

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
    """Return the classifier that `wrapper` puts on `base`, or None where it has none."""
    build = CLASSIFIERS.get(type(wrapper).__name__)
    return None if build is None else build(wrapper, base, layout)
