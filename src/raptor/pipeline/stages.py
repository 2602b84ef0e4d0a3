"""The stages of the pipeline, each a verb in its own directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from raptor.core.flow import DepthFlow
from raptor.data.options import LoadOptions
from raptor.distillation.command import distill_command
from raptor.distillation.distill import STAGES
from raptor.distillation.options import DistillOptions
from raptor.dynamics.command import dynamics_command
from raptor.dynamics.options import DynamicsOptions
from raptor.evaluation.command import fidelity_command
from raptor.film.command import film_images, film_stage
from raptor.inspection.command import inspect_command
from raptor.interventions.command import intervene_command
from raptor.interventions.options import InterveneOptions
from raptor.models.load import load_model
from raptor.phases.command import phases_command
from raptor.phases.options import PhasesOptions
from raptor.pipeline.presets import Preset
from raptor.probes.command import probe_command
from raptor.probes.options import ProbeOptions
from raptor.runtime.options import RunOptions
from raptor.runtime.rundir import Run, read_result_json
from raptor.training import checkpoint


class NothingToDoError(Exception):
    """Why a stage has nothing to do."""


@dataclass(frozen=True)
class Stage:
    """A stage.

    Parameters
    ----------
    name
        Name of its directory.
    work
        Called with the directory; writes the result there.
    reads
        Names of the stages whose results it reads.
    """

    name: str
    work: Callable[[Path], Any]
    reads: tuple[str, ...] = ()


class Stages:
    """The stages of a pipeline. Loads the model and one image, so that a mistake in either ends the run at once.

    Parameters
    ----------
    model, data, weights, loading
        Model and images, and how they are loaded.
    k
        Number of phases, or `auto`.
    preset
        Sizes; a number of images in `run_options` replaces the preset's.
    surrogates
        Surrogates to measure besides the one that is trained.
    run_options
        Seed, device, number and size of images.
    out
        Directory of the pipeline.
    """

    def __init__(
        self,
        model: str,
        data: str,
        k: int | str,
        preset: Preset,
        surrogates: list[str],
        weights: Path | None,
        loading: LoadOptions,
        run_options: RunOptions,
        out: Path,
    ):
        self.model, self.data, self.k, self.preset, self.surrogates = model, data, k, preset, surrogates
        self.weights, self.loading, self.run_options, self.out = weights, loading, run_options, out
        self.own = str(out / "distill")
        if (n := run_options.images) is not None:
            self.preset = replace(
                preset, images=n, intervention_images=min(n, preset.intervention_images),
                probe_images=min(n, preset.probe_images), film_images=min(n, preset.film_images),
                function_images=max(2, min(n, preset.function_images)),
            )  # fmt: skip
        self.teacher = load_model(model, run_options.size, weights, None, run_options.device)
        first = next(iter(loading.load(data, self.teacher, None, 1)))
        self.labelled = any(value is not None for value in (first.label, first.mask, first.depth))

    def all(self) -> list[Stage]:
        """Return the stages in order."""
        trains = self.preset.steps > 0
        measured = [*([self.own] if trains else []), *self.surrogates]
        shown = self.surrogates or [self.own]  # given ones are usually trained for longer
        reads = ("distill",) if trains and not self.surrogates else ()
        fidelity = [
            Stage(f"fidelity-{number}", partial(self._fidelity, source), ("distill",) if source == self.own else ())
            for number, source in enumerate(measured, start=1)
        ]
        return [
            Stage("inspect", self._inspect),
            Stage("phases", self._phases),
            *([Stage("distill", self._distill, ("phases",))] if trains else []),
            *fidelity,
            Stage("probe-1", partial(self._probe, self.model)),
            *([Stage("probe-2", partial(self._probe, shown[-1]), reads)] if measured else []),
            Stage("dynamics", partial(self._dynamics, shown[-1:]), ("phases", *reads)),
            Stage("intervene", self._intervene, ("phases",)),
            Stage("film", partial(self._film, shown), ("phases", *reads)),
        ]

    def _options(self, folder: Path, images: int | None, batch_size: int | None = None) -> RunOptions:
        batch_size = self.run_options.batch_size or batch_size
        return replace(self.run_options, out=folder, images=images, batch_size=batch_size)

    def _phases_found(self) -> str:
        found = read_result_json(self.out / "phases")
        if found is None:
            raise NothingToDoError("there are no phases")
        return str(found["phases"])

    def _exists(self, source: str) -> bool:
        return source != self.own or read_result_json(Path(source)) is not None

    def _need(self, source: str) -> None:
        if not self._exists(source):
            raise NothingToDoError("there is no surrogate")

    def _inspect(self, folder: Path) -> None:
        run_options = self._options(folder, self.preset.images)
        inspect_command(self.model, self.data, self.weights, loading=self.loading, run_options=run_options)

    def _phases(self, folder: Path) -> None:
        # On training images: the surrogate that gets these phases is measured on the held-out ones.
        phases_command(
            [self.model],
            f"{self.data}:train",
            weights=self.weights,
            options=PhasesOptions(k=self.k, function_images=self.preset.function_images),
            loading=self.loading,
            run_options=self._options(folder, self.preset.images),
        )

    def _distill(self, folder: Path) -> None:
        distill_command(
            self.model,
            self.data,
            phases=self._phases_found(),
            eval_images=self.preset.images,
            weights=self.weights,
            resume=(folder / STAGES[0] / checkpoint.NAME).exists(),
            options=DistillOptions(steps=self.preset.steps),
            loading=self.loading,
            run_options=self._options(folder, None, self.preset.batch_size),
        )

    def _fidelity(self, source: str, folder: Path) -> None:
        self._need(source)
        run_options = self._options(folder, self.preset.images)
        fidelity_command(source, self.data, self.model, self.weights, loading=self.loading, run_options=run_options)

    def _probe(self, source: str, folder: Path) -> None:
        if not self.labelled:
            raise NothingToDoError("the images have no labels")
        self._need(source)
        preset = self.preset
        probe_command(
            source,
            self.data,
            eval_images=preset.probe_images,
            seeds=None,
            weights=self.weights if source == self.model else None,
            options=ProbeOptions(seeds=preset.probe_seeds, epochs=preset.probe_epochs),
            loading=self.loading,
            run_options=self._options(folder, preset.probe_images),
        )

    def _dynamics(self, sources: list[str], folder: Path) -> None:
        preset = self.preset
        options = DynamicsOptions(
            perturbation_images=preset.perturbation_images, lyapunov_images=preset.lyapunov_images,
            perturbation_draws=preset.perturbation_draws, mixing_pairs=preset.mixing_pairs,
            coupling_images=preset.coupling_images,
        )  # fmt: skip
        dynamics_command(
            self.model,
            self.data,
            len(self._phases_found().split("-")),
            [source for source in sources if self._exists(source)],
            self.weights,
            options=options,
            loading=self.loading,
            run_options=self._options(folder, preset.images),
        )

    def _intervene(self, folder: Path) -> None:
        phases = self._phases_found()
        if "-" not in phases:
            raise NothingToDoError("a single phase has no layers across phases")
        run_options = self._options(folder, self.preset.intervention_images)
        intervene_command(
            self.model,
            phases,
            self.data,
            self.weights,
            options=InterveneOptions(most=self.preset.intervention_orders),
            loading=self.loading,
            run_options=run_options,
        )

    def _film(self, sources: list[str], folder: Path) -> None:
        run_options = self._options(folder, self.preset.film_images)
        config = run_options.config(self.loading, model=self.model, data=self.data, surrogates=sources)
        with Run("film", config, folder, run_options.seed) as run:
            flows: dict[str, DepthFlow] = {self.teacher.name: self.teacher}
            for source in filter(self._exists, sources):
                name = f"Raptor {self._phases_found()}" if source == self.own else source
                flows[name] = load_model(source, self.teacher.image_size, device=run_options.device)
            pixels = film_images(self.teacher, self.data, self.preset.film_images, run_options.seed, self.loading)
            film_stage(run, flows, self.teacher, pixels, self._phases_found())
