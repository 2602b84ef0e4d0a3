"""Measure the dynamics of a flow: most measures in one pass over the images, the expensive ones on a subset."""

from __future__ import annotations

import torch
from torch import Tensor

from raptor.core.batches import ImageSet, ImageSource, as_image_set, n_real
from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.flow import DepthFlow, trajectory_size
from raptor.core.options import old_keywords
from raptor.core.phases import Phases, PhasesLike, as_phases
from raptor.dynamics.basins import BasinMeasure, ClassMeans
from raptor.dynamics.boundaries import boundary_test
from raptor.dynamics.claims import GIVEN, claims_of
from raptor.dynamics.curves.coherence import Coherence
from raptor.dynamics.curves.convergence import Convergence
from raptor.dynamics.curves.image_ranks import ImageRanks
from raptor.dynamics.curves.registry import RegisteredMeasures
from raptor.dynamics.curves.speed import Speed
from raptor.dynamics.dmd import DMDError, PooledDMD
from raptor.dynamics.fixed_points import iterate_last_step
from raptor.dynamics.image_dmd import ImageDMD, ImageModes
from raptor.dynamics.lyapunov import lyapunov_exponents
from raptor.dynamics.measures import STATE_BYTES, Measure, run_measures
from raptor.dynamics.options import DynamicsOptions
from raptor.dynamics.paths import PathsMeasure, PrincipalMeasure
from raptor.dynamics.perturbation import perturb
from raptor.dynamics.random_walk import RandomWalkMeasure, RandomWalkNull
from raptor.dynamics.result import DMDResult, DynamicsResult, ModelDynamics
from raptor.models.surrogate import Surrogate
from raptor.models.teachers.teacher import Teacher
from raptor.phases.find import find_phases
from raptor.phases.options import AUTO
from raptor.phases.segment import segment
from raptor.phases.similarity import ALL
from raptor.runtime.progress import Progress, ProgressLike
from raptor.runtime.tracked import tracked

SINGULAR = 32  # singular values in the result

FitEvalSplit = tuple[ImageSource, ImageSource]


class Pooled:
    """The measures that share a pass, over two halves of the images: fitted on the first, evaluated on the second.

    Parameters
    ----------
    labelled
        Whether the images have labels; basins need them.
    """

    def __init__(self, labelled: bool):
        self.labelled, self.registered = labelled, RegisteredMeasures()
        self.dmd, self.principal, self.means = PooledDMD(), PrincipalMeasure(), ClassMeans()
        self.eval_speed = Speed()

    def run(self, flow: DepthFlow, split: FitEvalSplit, *more: Measure) -> None:
        """Run both halves, one after the other; further measures receive both."""
        both = [*self.registered, *more]
        run_measures(flow, split[0], *both, self.dmd, self.principal, *([self.means] * self.labelled))
        self.modes = self.dmd.compute()
        self.error, self.paths = DMDError(self.modes), PathsMeasure(self.principal.compute())
        self.basins = BasinMeasure(self.means) if self.labelled else None
        evaluated: list[Measure] = [self.error, self.paths, self.eval_speed]
        run_measures(flow, split[1], *both, *evaluated, *([self.basins] if self.basins else []))

    def curves(self, seed: int) -> dict[str, LayerEstimates]:
        """Return every registered measure by name."""
        return self.registered.compute(seed)

    def dmd_results(
        self, walks: dict[str, RandomWalkNull], single: dict[str, ImageModes], seed: int
    ) -> dict[str, DMDResult]:
        """Return the linear map of each token group, with its errors, its null and the maps of single images."""
        return {
            group: DMDResult(
                eigenvalues=modes.eigenvalues.tolist(),
                rank=len(modes.eigenvalues),
                spectral_radius=modes.spectral_radius,
                median_modulus=modes.median_modulus,
                singular=modes.singular[:SINGULAR].tolist(),
                one_step_error=Estimate.from_mean(self.error.one_step[group], seed),
                rollout_error=Estimate.from_mean(self.error.rollout[group], seed),
                amplitudes=modes.amplitudes().abs().tolist(),
                random_walk=walks[group],
                single_images=single[group],
                modes=modes,
            )
            for group, modes in self.modes.items()
        }


@old_keywords(DynamicsOptions, pushed="perturbation_images", stretched="lyapunov_images")
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
        Phases for Lyapunov exponents and for the speed at boundaries: text such as `7-3-2`, `Phases`, what
        `find_phases` returned, or their number. `auto` takes a surrogate's own, and finds those of other flows on the
        first half of the images. None leaves out what needs phases.
    options
        Number of images for the expensive measures, seed, and whether to go beyond the last layer.
    progress
        Whether to show progress: a bar in a terminal or a notebook, lines in a log. Or a function, called with a
        `ProgressState`.
    """
    model = measure_model(flow, images, phases, options or DynamicsOptions(), progress)
    return DynamicsResult.of(model, claims_of(model))


def measure_model(
    flow: DepthFlow,
    images: ImageSource,
    phases: PhasesLike | int | None,
    options: DynamicsOptions,
    progress: ProgressLike = False,
    name: str = "",
) -> ModelDynamics:
    """Measure one model; the parameters are those of `measure_dynamics`, and a name for progress."""
    shown, suffix, seed, surrogate = Progress.of(progress), f" of {name}" * bool(name), options.seed, surrogate_in(flow)
    image_set = as_image_set(tracked(images, f"dynamics{suffix}", shown))
    fit_images, _ = split = image_set.fit_eval_split()
    own, cuts = _cuts(flow, fit_images, surrogate.phases if surrogate and phases == AUTO else phases, seed)
    few, labelled = _first(fit_images, max(options.perturbation_images, options.lyapunov_images))
    pooled, walk, single, single_ranks = Pooled(labelled), RandomWalkMeasure(), ImageDMD(), ImageRanks()
    pooled.run(flow, split, walk, single, single_ranks)
    curves = pooled.curves(seed)
    # As many at a time as fit into memory together with the unperturbed trajectories.
    some = few[: options.perturbation_images].split(max(1, STATE_BYTES // (8 * trajectory_size(flow))))
    perturbed = perturb(flow, shown.track(some, sum(map(len, some)), f"perturbations{suffix}"), seed=seed)
    lyapunov_images = shown.track(
        few[: options.lyapunov_images].split(1), options.lyapunov_images, f"Lyapunov exponents{suffix}"
    )
    beyond = surrogate is not None if options.beyond is None else options.beyond
    return ModelDynamics(
        curves=curves,
        image_ranks=single_ranks.compute(seed),
        coherence_floor=pooled.registered.by_class[Coherence].floor,
        converged_layer=pooled.registered.by_class[Convergence].converged_layer(seed),
        dmd=pooled.dmd_results(walk.compute(seed), single.compute(seed), seed),
        paths=pooled.paths.compute(image_set.classes),
        basins=None if pooled.basins is None else pooled.basins.compute(seed, image_set.classes),
        sensitivity=perturbed.sensitivity(),
        correction=perturbed.correction(curves["gamma"].mean),
        phases=own,
        speed_at_boundaries={
            group: {source: boundary_test(speed, cut) for source, cut in cuts.items() if not _circular(group, source)}
            for group, speed in pooled.eval_speed.compute(seed).mean.items()
        },
        lyapunov=None if own is None else lyapunov_exponents(flow, lyapunov_images, own, seed=seed),
        beyond=iterate_last_step(flow, some, seed=seed) if beyond else None,
        n=curves["speed"].n,
        seed=seed,
    )


def surrogate_in(flow: DepthFlow) -> Surrogate | None:
    """Return the surrogate that a flow is, or that was loaded as a model; None for other flows."""
    # RaptorModel has it as an attribute; its class is not imported here, because that imports transformers.
    module = getattr(flow.module, "surrogate", None) if isinstance(flow, Teacher) else flow
    return module if isinstance(module, Surrogate) else None


def _cuts(
    flow: DepthFlow, images: ImageSource, phases: PhasesLike | int | None, seed: int
) -> tuple[Phases | None, dict[str, Phases]]:
    """Return the phases, and by source all boundaries at which the speed is tested."""
    if phases is None:
        return None, {}
    if isinstance(phases, int):
        return cuts_of(flow, images, seed, phases)
    if phases == AUTO:
        return cuts_of(flow, images, seed)
    given = as_phases(phases)
    return given, {GIVEN: given}


def cuts_of(
    flow: DepthFlow, images: ImageSource, seed: int = 0, k: int | str = AUTO
) -> tuple[Phases, dict[str, Phases]]:
    """Find phases; return them, and by source the phases of all tokens and of each token group.

    Parameters
    ----------
    flow, images
        As in `find_phases`.
    seed
        Seed of the bootstrap over images.
    k
        Number of phases, or `auto`.
    """
    found = find_phases(flow, images, k=k, seed=seed, progress=False)  # the images show their own
    assert found.measured is not None
    groups = {
        group: segment(found.measured.without_embedding(group).mean().numpy(), found.k).phases
        for group in flow.layout.slices
    }
    return found.phases, {found.group: found.phases, **groups}


def _circular(group: str, source: str) -> bool:
    """Whether boundaries come from the similarities of the tested group itself; nearly all tokens are patches."""
    return source == group or (group, source) == ("patch", ALL)


def _first(images: ImageSet, n: int) -> tuple[Tensor, bool]:
    """Return the pixels of the first n images, and whether the images have labels."""
    pixels: list[Tensor] = []
    labelled = False
    for batch in images:
        pixels.append(images.process_group.all_gather(batch.pixels[: n_real(batch)]))
        labelled = batch.label is not None
        if sum(map(len, pixels)) >= n:
            break
    return torch.cat(pixels)[:n], labelled
