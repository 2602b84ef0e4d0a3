"""What `raptor run` does: every stage from a model and images to the page, each skipped where its result is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from raptor.commands.distilling import LAUNCH, default_recipe, distill_model
from raptor.commands.dynamics import dynamics_of
from raptor.commands.fidelity import fidelity_of
from raptor.commands.filming import film, film_images
from raptor.commands.inspecting import inspect_model
from raptor.commands.intervening import intervene_in
from raptor.commands.phases import phases_of_models
from raptor.commands.presets import PRESETS, Preset
from raptor.commands.probing import probe_model
from raptor.commands.reporting import PAGE, answers, write_page
from raptor.commands.resuming import check_same
from raptor.data import data_for, load_images, parse_source
from raptor.errors import OptionError, OutputError, PipelineError, RaptorError, one_line
from raptor.files import discard
from raptor.flow import DepthFlow
from raptor.models.teachers import SHIPPED_SURROGATES, load_teacher
from raptor.options import Common
from raptor.probes.plan import Plan
from raptor.run import Run, plain, read_result
from raptor.training import checkpoint
from raptor.training.distill import STAGES


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
    if parse_source(data)[1] is not None:
        raise OptionError(f"the pipeline takes train and held-out images itself: leave out the split of {data!r}")
    beside = tuple(surrogates) or (tuple(SHIPPED_SURROGATES) if model == "scenes" else ())
    config = common.config(
        model=model, data=data, k=k, preset=preset, surrogates=list(beside), weights=weights, **loading
    )
    with Run("run", config, common.out, common.seed) as run:
        _check_own(common.out, {**plain(config), "seed": common.seed})
        pipeline = _Pipeline(model, data, k, PRESETS[preset], beside, common, weights, loading, common.out)
        pipeline.load()
        run.begin()
        stages: list[dict[str, Any]] = []
        planned = pipeline.stages()
        for stage in planned:
            reading = [common.out / other.name for other in planned if stage.name in other.reads]
            stages.append(_do(stage, common.out / stage.name, reading, common))
        page = common.out / PAGE
        body = {"model": model, "data": data, "preset": preset, "stages": stages, "report": str(page),
                "answer": answers([common.out])}  # fmt: skip
        seen = (read_result(common.out / "phases") or {}).get("images", 0)
        result = run.finish(body, images=seen, layers=pipeline.depth)
        write_page([common.out], page)
        failed = [stage for stage in stages if stage["error"]]
        if failed:
            told = "; ".join(f"{stage['stage']}: {stage['error']}" for stage in failed)
            raise PipelineError(f"{told} (the page has the rest: {page})")
        return result


class NotHereError(Exception):
    """Why a stage has nothing to do."""


@dataclass(frozen=True)
class Stage:
    """A verb in a directory of its own, what it does there, and the stages whose results it reads."""

    name: str
    work: Callable[[Path], Any]
    reads: tuple[str, ...] = ()


def _check_own(out: Path, config: dict[str, Any]) -> None:
    """Raise where a directory holds another run's stages, or stages of which nobody knows what they are of."""
    if not (out / "config.json").exists() and any(out.glob("*/result.json")):
        raise OutputError(f"{str(out)!r} holds results, but no run of the whole pipeline: use another --out")
    check_same(out, config)


def _do(stage: Stage, folder: Path, reading: Sequence[Path], common: Common) -> dict[str, Any]:
    """Do a stage unless it is done; return what became of it.

    Directories of the stages that read it are discarded before it begins: a run that is killed after it must not find
    there what was made of another result.
    """
    began = time.perf_counter()
    done = {"stage": stage.name, "skipped": read_result(folder) is not None, "not_done": None, "error": None}
    if not done["skipped"]:
        common.announce(stage.name)
        try:
            for other in reading:
                discard(other)
            stage.work(folder)
        except NotHereError as reason:
            done["not_done"] = str(reason)
        except Exception as error:  # a mistake of ours in one stage does not cost the page either
            if common.debug:
                raise
            done["error"] = str(error) if isinstance(error, RaptorError) else one_line(error)
            common.announce(f"{stage.name} failed: {done['error']}")
    return {**done, "seconds": round(time.perf_counter() - began, 3)}


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
        self.own = str(out / "distill")
        if (n := common.images) is not None:
            changed, probed, filmed = (min(n, most) for most in (preset.changed, preset.probed, preset.filmed))
            self.preset = replace(preset, images=n, changed=changed, probed=probed, filmed=filmed)

    def load(self) -> None:
        """Load the model and look at an image: a mistake in either ends the run before it has begun."""
        self.teacher = load_teacher(self.model, self.common.size, self.weights, None, self.common.device)
        self.depth = self.teacher.depth
        first = next(iter(load_images(self.data, self.teacher, None, 1, **self.loading)))
        self.labelled = any(value is not None for value in (first.label, first.mask, first.depth))

    def stages(self) -> list[Stage]:
        """Return the stages in their order."""
        measured = [self.own, *self.beside]
        shown = self.beside[-1] if self.beside else self.own  # trained for long, where there are any
        reads = ("distill",) if shown == self.own else ()
        fidelity = [
            Stage(f"fidelity-{number}", partial(self._fidelity, source), ("distill",) if source == self.own else ())
            for number, source in enumerate(measured, start=1)
        ]
        return [
            Stage("inspect", self._inspect), Stage("phases", self._phases),
            Stage("distill", self._distill, ("phases",)), *fidelity,
            Stage("probe-1", partial(self._probe, self.model)), Stage("probe-2", partial(self._probe, shown), reads),
            Stage("dynamics", partial(self._dynamics, shown), ("phases", *reads)),
            Stage("intervene", self._intervene, ("phases",)),
            Stage("film", partial(self._film, shown), ("phases", *reads)),
        ]  # fmt: skip

    def _options(self, folder: Path, images: int | None, batch_size: int | None = None) -> Common:
        return replace(self.common, out=folder, images=images, batch_size=self.common.batch_size or batch_size)

    def _cut(self) -> str:
        """Return the phases that were found."""
        found = read_result(self.out / "phases")
        if found is None:
            raise NotHereError("there are no phases")
        return str(found["phases"])

    def _is_there(self, source: str) -> bool:
        return source != self.own or read_result(Path(source)) is not None

    def _inspect(self, folder: Path) -> None:
        inspect_model(
            self.model, self.data, self.weights, None, self._options(folder, self.preset.images), self.loading
        )

    def _phases(self, folder: Path) -> None:
        common = self._options(folder, self.preset.images)
        phases_of_models([self.model], self.data, self.weights, common, {"k": self.k}, self.loading)

    def _distill(self, folder: Path) -> None:
        preset = self.preset
        distill_model(
            self.model, self.data, None, self._cut(), self._options(folder, None, preset.batch_size),
            recipe=default_recipe(preset.steps), launch=LAUNCH,
            eval_data=None, eval_images=preset.images, weights=self.weights, head=None,
            resume=(folder / STAGES[0] / checkpoint.NAME).exists(), cache=None, loading=self.loading,
        )  # fmt: skip

    def _fidelity(self, source: str, folder: Path) -> None:
        if not self._is_there(source):
            raise NotHereError("there is no surrogate")
        common = self._options(folder, self.preset.images)
        fidelity_of(source, self.data, self.model, self.weights, common, self.loading)

    def _probe(self, source: str, folder: Path) -> None:
        if not self.labelled:
            raise NotHereError("the images have no labels")
        if not self._is_there(source):
            raise NotHereError("there is no surrogate")
        preset = self.preset
        probe_model(
            source, self.data, None, self._options(folder, preset.probed),
            plan=Plan(seeds=preset.probe_seeds, epochs=preset.probe_epochs), eval_data=None, eval_images=preset.probed,
            layer=None, cache=None, live=False, fit="own", eigen_crop=False,
            weights=self.weights if source == self.model else None, head=None, loading=self.loading,
        )  # fmt: skip

    def _dynamics(self, source: str, folder: Path) -> None:
        preset, k = self.preset, len(self._cut().split("-"))
        against = [source] if self._is_there(source) else []
        dynamics_of(
            self.model, self.data, k, against, self._options(folder, preset.images), self.weights,
            None, self.loading, preset.pushed, preset.stretched,
        )  # fmt: skip

    def _intervene(self, folder: Path) -> None:
        cut = self._cut()
        if "-" not in cut:
            raise NotHereError("a single phase has no layers across phases")
        common = self._options(folder, self.preset.changed)
        intervene_in(self.model, self.data, cut, self.preset.orders, common, self.weights, None, self.loading)

    def _film(self, source: str, folder: Path) -> None:
        common = self._options(folder, self.preset.filmed)
        config = common.config(model=self.model, data=self.data, surrogate=source, **self.loading)
        with Run("film", config, folder, common.seed) as run:
            flows: dict[str, DepthFlow] = {self.teacher.name: self.teacher}
            if self._is_there(source):
                named = f"Raptor {self._cut()}" if source == self.own else source
                flows[named] = load_teacher(source, self.teacher.image_size, device=common.device)
            pixels = film_images(self.teacher, self.data, self.preset.filmed, common.seed, self.loading)
            film(run, flows, self.teacher, pixels, self._cut())
