"""What phases cost: measuring similarity beside the forward pass, cutting beside the library that cuts exactly too."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from raptor.benchmarks.rollout import dinov2_small
from raptor.data.load import load_images
from raptor.errors import MissingDependencyError
from raptor.models.load import load_model
from raptor.phases.function.fit import segment_costs
from raptor.phases.function.local import functional_similarity
from raptor.phases.segment import segment
from raptor.phases.similarity import Similarity, layer_similarity
from raptor.runtime.timing import Ratio, compare

LAYERS, MOST = 48, 12
FIT_IMAGES, FIT_PASSES = 128, 60


def similarity_against_forward() -> Ratio:
    """All groups' similarities and CKA vectors of four images of DINOv2-S, against the bare forward pass."""
    own, teacher, pixels = dinov2_small()

    def ours() -> Similarity:
        return layer_similarity(teacher, [pixels])

    def theirs() -> object:
        with torch.no_grad():
            return own(pixels).last_hidden_state

    return compare("similarity of DINOv2-S's layers against a forward pass", ours, theirs, limit=1.10, rounds=31)


def function_against_forward() -> Ratio:
    """Every block of DINOv2-S at the input of every layer, against as many forward passes as it has layers."""
    own, teacher, pixels = dinov2_small()

    def theirs() -> None:
        with torch.no_grad():
            for _ in range(teacher.depth):
                own(pixels)

    name = "functional similarity of DINOv2-S against a forward pass for each layer"
    return compare(name, lambda: functional_similarity(teacher, [pixels]), theirs, limit=1.3, rounds=5)


def fit_against_forward() -> Ratio:
    """The costs of all segments of the bundled ViT by least squares, against 60 forward passes."""
    teacher = load_model("scenes")
    batches = [batch.pixels for batch in load_images("scenes:train", teacher, images=FIT_IMAGES)]

    def theirs() -> None:
        with torch.no_grad():
            for _ in range(FIT_PASSES):
                for pixels in batches:
                    teacher(pixels)

    name = f"fit of all segments of scenes on {FIT_IMAGES} images against {FIT_PASSES} forward passes"
    return compare(name, lambda: segment_costs(teacher, batches), theirs, limit=1.0, rounds=3)


def cuts_by_ruptures(gram: Float[np.ndarray, "layers layers"], most: int, min_length: int = 2) -> dict[int, list[int]]:
    """Return the boundaries of the best k segments for k = 2 .. most, found by ruptures, fitted once for all k."""
    try:
        import ruptures
    except ImportError as error:
        raise MissingDependencyError("comparing with ruptures needs it: pip install 'raptor-vit[test]'") from error

    class Gram(ruptures.base.BaseCost):
        """The kernel cost, trace - sum/n, on a Gram matrix that is given."""

        model = "gram"
        min_size = min_length

        def fit(self, signal: Float[np.ndarray, "layers layers"]) -> Gram:
            self.signal = signal
            return self

        def error(self, start: int, end: int) -> float:
            part = self.signal[start:end, start:end]
            return float(np.trace(part) - part.sum() / (end - start))

    search = ruptures.Dynp(custom_cost=Gram(), jump=1, min_size=min_length).fit(gram)
    return {k: search.predict(k - 1)[:-1] for k in range(2, most + 1)}


def segmentation_against_ruptures() -> Ratio:
    """The dynamic programme for 48 layers and all k to 12, against ruptures'."""
    states = np.cumsum(np.random.default_rng(0).normal(size=(LAYERS, 20)), axis=0)
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    gram = states @ states.T
    name = f"cutting {LAYERS} layers for all k to {MOST} against ruptures"
    return compare(name, lambda: segment(gram, MOST), lambda: cuts_by_ruptures(gram, MOST), limit=0.05, rounds=31)
