"""Parameter names of surrogates that were saved before depth scaling and relaxation worked on parameters.

Linear maps were wrapped then: a scaled map had its weight in `proj.linear.weight`, a relaxed one its corrections in
`proj.down` and `proj.up`, and a map that was both in `proj.linear.linear.weight` and `proj.linear.down`.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

WRAPPERS = (".linear.linear", ".linear")


def rename_weights(state: dict[str, Tensor], stems: Sequence[str]) -> None:
    """Give the weights of wrapped linear maps their present names, in place.

    Parameters
    ----------
    state
        A state dict with old or present names.
    stems
        Names of the linear maps.
    """
    for stem in stems:
        wrapper = next((each for each in WRAPPERS if f"{stem}{each}.weight" in state), None)
        if wrapper is None:
            continue
        for kind in ("weight", "bias"):
            if f"{stem}{wrapper}.{kind}" in state:
                state[f"{stem}.{kind}"] = state.pop(f"{stem}{wrapper}.{kind}")
        for buffer in ("scale", "layer", "linear.layer"):
            state.pop(f"{stem}.{buffer}", None)


def rename_correction(state: dict[str, Tensor], stem: str, new: str, start: dict[str, Tensor]) -> None:
    """Give the corrections of one linear map their present names, in place.

    Parameters
    ----------
    state
        A state dict with old or present names.
    stem
        Name of the linear map.
    new
        Present name of its corrections.
    start
        Corrections that change nothing, for a matrix that had none.
    """
    for kind in ("down", "up"):
        olds = [name for name in (f"{stem}.linear.{kind}", f"{stem}.{kind}") if name in state]
        state.setdefault(f"{new}.{kind}", state.pop(olds[0]) if olds else start[kind])
