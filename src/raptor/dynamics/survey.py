"""Measure the dynamics of a flow: most measures in one pass over the images, the expensive ones on a subset."""

from __future__ import annotations

import torch
from torch import Tensor

from raptor.core.batches import ImageSet, ImageSource, as_image_set, n_real
from raptor.core.flow import DepthFlow, trajectory_size
from raptor.core.options import old_keywords
from raptor.core.phases import PhasesLike
from raptor.dynamics.claims.gather import gather_evidence
from raptor.dynamics.claims.table import claims_of
from raptor.dynamics.coupling import coupling
from raptor.dynamics.curves.convergence import Convergence
from raptor.dynamics.cuts import Cuts
from raptor.dynamics.fixed_points import iterate_last_step
from raptor.dynamics.lyapunov import lyapunov_exponents
from raptor.dynamics.measures import STATE_BYTES
from raptor.dynamics.one_pass import Pooled
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.perturbations.mixing import mix, pairs_of
from raptor.dynamics.perturbations.perturb import perturb
from raptor.dynamics.result import DynamicsResult, ModelDynamics
from raptor.inspection.separate import Separation, separation
from raptor.models.surrogate import surrogate_in
from raptor.phases.options import AUTO
from raptor.runtime.progress import Progress, ProgressLike
from raptor.runtime.tracked import tracked


@old_keywords(DynamicsOptions, pushed="perturbation_images", phased="lyapunov_images")
def measure_dynamics(
    flow: DepthFlow,
    images: ImageSource,
    phases: PhasesLike | int | None = AUTO,
    options: DynamicsOptions | None = None,
    progress: ProgressLike = True,
) -> DynamicsResult:
    """Measure the depth of a flow as a dynamical system.

    Parameters
    ----------
    flow
        Teacher, surrogate or toy.
    images
        Batches of pixels, or what `load_images` returned; with labels, basins are measured too. What is fitted on one
        half of the images is evaluated on the other.
    phases
        Phases for Lyapunov exponents and for the test of speed: text such as `7-3-2`, `Phases`, what
        `find_phases` returned, or their number. `auto` takes a surrogate's own, and finds those of other flows on the
        first half of the images. None leaves out what needs phases.
    options
        Number of images for the expensive measures, seed, and whether to go beyond the last layer.
    progress
        Whether to show progress: a bar in a terminal or a notebook, lines in a log. Or a function, called with a
        `ProgressState`.
    """
    options = options or DynamicsOptions()
    separated = separation(options.outliers, flow, images)
    return DynamicsResult.of(measure_model(flow, images, phases, options, progress, separated=separated))


def measure_model(
    flow: DepthFlow,
    images: ImageSource,
    phases: PhasesLike | int | None,
    options: DynamicsOptions,
    progress: ProgressLike = False,
    name: str = "",
    separated: Separation | None = None,
) -> ModelDynamics:
    """Measure one model.

    Parameters
    ----------
    flow, images, phases, options, progress
        As in `measure_dynamics`.
    name
        Name of the model, for progress.
    separated
        Outliers as a token group of their own; None leaves them with other patches.
    """
    shown, suffix, seed, surrogate = Progress.of(progress), f" of {name}" * bool(name), options.seed, surrogate_in(flow)
    image_set = as_image_set(tracked(images, f"dynamics{suffix}", shown))
    fit_images, _ = split = image_set.fit_eval_split()
    given = surrogate.phases if surrogate and phases == AUTO else phases
    # Mixtures and Lyapunov exponents are of all tokens, in the order of the model: they use the model itself.
    model, flow = flow, flow if separated is None else separated.of(flow)
    found_cuts = Cuts(flow, given)
    n_mixed = 2 * options.mixing_pairs
    few, label = _first(fit_images, max(options.perturbation_images, options.lyapunov_images, n_mixed))
    pooled = Pooled(label is not None)
    pooled.run(flow, split, found_cuts)
    own, cuts = found_cuts.compute(seed)
    curves = pooled.curves(seed)
    # As many at a time as fit into memory together with the unperturbed trajectories.
    some = few[: options.perturbation_images].split(max(1, STATE_BYTES // (8 * trajectory_size(flow))))
    followed = shown.track(some, sum(map(len, some)), f"perturbations{suffix}")
    perturbed = perturb(flow, followed, seed=seed, draws=options.perturbation_draws, last=pooled.rotation.last)
    pairs = pairs_of(label, len(few[:n_mixed]))
    mixing = None
    if pairs:
        # Without cls, mixtures are read from the mean patch, and class means are of patches without outliers.
        known = label is not None and (separated is None or "cls" in flow.layout.slices)
        centres = pooled.means.directions(-1) if known else None
        mixing = mix(model, few, shown.track(pairs, len(pairs), f"mixtures{suffix}"), label, centres, seed)
    lyapunov_images = shown.track(
        few[: options.lyapunov_images].split(1), options.lyapunov_images, f"Lyapunov exponents{suffix}"
    )
    phased = own if options.lyapunov_images else None
    beyond = surrogate is not None if options.beyond is None else options.beyond
    evidence = gather_evidence(pooled, perturbed, mixing, own, cuts, seed)
    return ModelDynamics(
        curves=curves,
        image_ranks=pooled.image_ranks.compute(seed),
        coherence_floor=evidence.coherence_floor,
        converged_layer=pooled.registered.by_class[Convergence].converged_layer(seed),
        dmd=pooled.dmd_results(seed),
        paths=pooled.paths.compute(image_set.classes),
        basins=None if pooled.basins is None else pooled.basins.compute(seed, image_set.classes),
        sensitivity=perturbed.sensitivity(),
        correction=perturbed.correction(curves["gamma"].mean),
        phases=own,
        stationarity=evidence.stationarity,
        mixing=None if mixing is None else mixing.summary(),
        coupling=coupling(flow, few[: options.coupling_images].split(1), own, seed) if options.coupling_images else {},
        last_layer=evidence.last,
        lyapunov=None if phased is None else lyapunov_exponents(model, lyapunov_images, phased, seed=seed),
        beyond=iterate_last_step(flow, some, seed=seed) if beyond else None,
        claims=claims_of(evidence),
        outliers=None if separated is None else separated.group,
        n=curves["speed"].n,
        seed=seed,
    )


def _first(images: ImageSet, n: int) -> tuple[Tensor, Tensor | None]:
    """Return the pixels and labels of the first n images; None where the images have no labels."""
    pixels: list[Tensor] = []
    labels: list[Tensor] = []
    for batch in images:
        real = n_real(batch)
        pixels.append(images.process_group.all_gather(batch.pixels[:real]))
        if batch.label is not None:
            labels.append(images.process_group.all_gather(batch.label[:real]).cpu())
        if sum(map(len, pixels)) >= n:
            break
    return torch.cat(pixels)[:n], torch.cat(labels)[:n] if labels else None
