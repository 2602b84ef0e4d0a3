"""What `raptor run` does: every stage from a model and images to the page, each skipped where its result is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from raptor.commands.distilling import check_same, distill_model
from raptor.commands.dynamics import dynamics_of
from raptor.commands.fidelity import fidelity_of
from raptor.commands.filming import film, film_images
from raptor.commands.inspecting import inspect_model
from raptor.commands.intervening import intervene_in
from raptor.commands.phases import phases_of_models
from raptor.commands.presets import PRESETS, Preset
from raptor.commands.probing import probe_model
from raptor.commands.reporting import PAGE, answers, write_page
from raptor.data import data_for, load_images
from raptor.errors import OptionError, PipelineError, RaptorError, one_line
from raptor.models.teachers import SHIPPED_SURROGATES, load_teacher
from raptor.options import Common
from raptor.probes.plan import Plan
from raptor.run import Run, plain, read_result
from raptor.selection import AUTO


def run_pipeline(
    model: str,
    data: str | None,
    k: int | str,
    preset: str,
    surrogates: Sequence[str],
    common: Common,
    weights: Path | None,
    loading: dict[str, Any],
) -> dict[str, Any]:
    """Do all stages that have no result yet, and write the page; one that fails does not take the others with it."""
    if preset not in PRESETS:
        raise OptionError(f"a preset is {', '.join(PRESETS)}, not {preset!r}")
    if common.out is None:
        raise OptionError("the whole pipeline keeps what is done: give --out DIR")
    data = data_for(model, data, "the whole pipeline needs images")
    beside = tuple(surrogates) or (tuple(SHIPPED_SURROGATES) if model == "scenes" else ())
    config = common.config(
        model=model, data=data, k=k, preset=preset, surrogates=list(beside), weights=weights, **loading
    )
    with Run("run", config, common.out, common.seed) as run:
        check_same(common.out, {**plain(config), "seed": common.seed})
        pipeline = _Pipeline(model, data, k, PRESETS[preset], beside, common, weights, loading, common.out)
        pipeline.load()
        run.begin()
        stages = [_do(name, work, common) for name, work in pipeline.stages()]
        page = common.out / PAGE
        body = {"model": model, "data": data, "preset": preset, "stages": stages, "report": str(page),
                "answer": answers([common.out])}  # fmt: skip
        result = run.finish(body, images=pipeline.preset.images, layers=pipeline.depth)
        write_page([common.out], page)
        failed = [stage for stage in stages if stage["error"]]
        if failed:
            told = "; ".join(f"{stage['stage']}: {stage['error']}" for stage in failed)
            raise PipelineError(f"{told} (the page has the rest: {page})")
        return result


class NotHereError(Exception):
    """Why a stage has nothing to do."""


def _do(name: str, work: Callable[[Path], Any], common: Common) -> dict[str, Any]:
    """Do a stage in its directory unless it is done; return what became of it."""
    assert common.out is not None
    folder, began = common.out / name, time.perf_counter()
    stage = {"stage": name, "skipped": read_result(folder) is not None, "seconds": 0.0, "not_done": None, "error": None}
    if not stage["skipped"]:
        common.progress.print(name, markup=False, highlight=False)
        try:
            work(folder)
        except NotHereError as reason:
            stage["not_done"] = str(reason)
        except (RaptorError, RuntimeError, ValueError, OSError) as error:
            stage["error"] = one_line(error)
            common.progress.print(f"{name} failed: {stage['error']}", markup=False, highlight=False)
    return {**stage, "seconds": round(time.perf_counter() - began, 3)}


class _Pipeline:
    """The stages, each a verb in a directory of its own."""

    def __init__(
        self,
        model: str,
        data: str,
        k: int | str,
        preset: Preset,
        beside: Sequence[str],
        common: Common,
        weights: Path | None,
        loading: dict[str, Any],
        out: Path,
    ):
        self.model, self.data, self.k, self.preset, self.beside = model, data, k, preset, list(beside)
        self.common, self.weights, self.loading, self.out = common, weights, loading, out
        if common.images is not None:
            self.preset = replace(preset, images=common.images)

    def load(self) -> None:
        """Load the model and look at an image: a mistake in either ends the run before it has begun."""
        self.teacher = load_teacher(self.model, self.common.size, self.weights, None, self.common.device)
        self.depth = self.teacher.depth
        first = next(iter(load_images(self.data, self.teacher, None, 1, **self.loading)))
        self.labelled = any(value is not None for value in (first.label, first.mask, first.depth))

    def stages(self) -> list[tuple[str, Callable[[Path], Any]]]:
        """Return the stages in their order."""
        own = str(self.out / "distill")
        measured = [own, *self.beside]
        shown = self.beside[-1] if self.beside else own  # surrogates that were trained for long, where there are any
        fidelity = [
            (f"fidelity-{number}", lambda folder, source=source: self._fidelity(folder, source))
            for number, source in enumerate(measured, start=1)
        ]
        return [
            ("inspect", self._inspect), ("phases", self._phases), ("distill", self._distill), *fidelity,
            ("probe-1", lambda folder: self._probe(folder, self.model)),
            ("probe-2", lambda folder: self._probe(folder, shown)),
            ("dynamics", lambda folder: self._dynamics(folder, shown)), ("intervene", self._intervene),
            ("film", lambda folder: self._film(folder, shown)),
        ]  # fmt: skip

    def _options(self, folder: Path, images: int | None, batch_size: int | None = None) -> Common:
        return replace(self.common, out=folder, images=images, batch_size=batch_size or self.common.batch_size)

    def _cut(self) -> str:
        """Return the phases that were found."""
        found = read_result(self.out / "phases")
        if found is None:
            raise NotHereError("there are no phases")
        return str(found["phases"])

    def _trained(self, source: str) -> str:
        if source == str(self.out / "distill") and read_result(Path(source)) is None:
            raise NotHereError("there is no surrogate")
        return source

    def _inspect(self, folder: Path) -> None:
        common, own = self._options(folder, self.preset.images), {"model": self.model, "data": self.data}
        with Run("inspect", common.config(**own, weights=self.weights, **self.loading), folder, common.seed) as run:
            inspect_model(
                run, self.model, self.data, weights=self.weights, image_size=common.size, device=common.device,
                progress=common.progress, batch_size=common.batch, images=common.images, **self.loading,
            )  # fmt: skip

    def _phases(self, folder: Path) -> None:
        common = self._options(folder, self.preset.images)
        phases_of_models([self.model], self.data, self.weights, common, {"k": self.k}, self.loading)

    def _distill(self, folder: Path) -> None:
        preset = self.preset
        distill_model(
            self.model, self.data, None, self._cut(), self._options(folder, None, preset.batch_size),
            recipe={"name": "default", "steps": preset.steps, "lr": None, "muon_lr": None, "kind": None},
            launch={"precision": "no", "accumulate": 1, "recompute": False, "trackers": ()},
            eval_data=None, eval_images=preset.images, weights=self.weights, head=None,
            resume=(folder / "stage1" / "checkpoint.pt").exists(), cache=None, loading=self.loading,
        )  # fmt: skip

    def _fidelity(self, folder: Path, source: str) -> None:
        common = self._options(folder, self.preset.images)
        fidelity_of(self._trained(source), self.data, self.model, self.weights, common, self.loading)

    def _probe(self, folder: Path, source: str) -> None:
        if not self.labelled:
            raise NotHereError("the images have no labels")
        preset = self.preset
        probe_model(
            self._trained(source), self.data, None, self._options(folder, preset.probed),
            plan=Plan(seeds=preset.probe_seeds, epochs=preset.probe_epochs), eval_data=None, eval_images=preset.probed,
            layer=None, cache=None, live=False, fit="own", eigen_crop=False,
            weights=self.weights if source == self.model else None, head=None, loading=self.loading,
        )  # fmt: skip

    def _dynamics(self, folder: Path, source: str) -> None:
        preset = self.preset
        dynamics_of(
            self.model, self.data, AUTO, [self._trained(source)], self._options(folder, preset.images), self.weights,
            None, self.loading, preset.pushed, preset.stretched,
        )  # fmt: skip

    def _intervene(self, folder: Path) -> None:
        cut = self._cut()
        if "-" not in cut:
            raise NotHereError("a single phase has no layers across phases")
        common = self._options(folder, self.preset.changed)
        intervene_in(self.model, self.data, cut, self.preset.orders, common, self.weights, None, self.loading)

    def _film(self, folder: Path, source: str) -> None:
        common = self._options(folder, self.preset.filmed)
        config = common.config(model=self.model, data=self.data, surrogate=source, **self.loading)
        with Run("film", config, folder, common.seed) as run:
            other = load_teacher(self._trained(source), self.teacher.image_size, device=common.device)
            pixels = film_images(self.teacher, self.data, self.preset.filmed, common.seed, self.loading)
            named = f"Raptor {self._cut()}" if source == str(self.out / "distill") else source
            film(run, {self.teacher.name: self.teacher, named: other}, self.teacher, pixels, self._cut())
