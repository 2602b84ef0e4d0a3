"""`raptor train`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from raptor.core.options import Option
from raptor.core.serialize import to_plain
from raptor.data.options import LoadOptions
from raptor.runtime.options import EvalData, RunOptions
from raptor.runtime.rundir import Record, Run
from raptor.runtime.verbs import MODEL, verb
from raptor.training.options import TrainOptions

if TYPE_CHECKING:
    from raptor.training.train import TrainResult


@verb(
    MODEL, "training.train:TrainResult", name="train",
    help={
        "out": "Directory for the model, its checkpoints and its results.",
        "images": "Number of training images. Default: all.",
        "image_size": "Image size in pixels. Default: 64.",
    },
)  # fmt: skip
def train_command(
    data: Annotated[str, Option("Labelled images to train on. Append :SPLIT to choose a split. Default split: train.")],
    eval_data: EvalData = None,
    eval_images: Annotated[int, Option("Number of evaluation images.", min=1)] = 10_000,
    resume: Annotated[bool, Option("Continue from the checkpoint in --out.", flags=("--resume",))] = False,
    *,
    options: TrainOptions,
    loading: LoadOptions,
    run_options: RunOptions,
) -> Record[TrainResult] | None:
    """Train a small ViT on labelled images, for use as a MODEL in other commands."""
    from raptor.runtime.distributed import is_main_process, is_restarted
    from raptor.training.resuming import check_fresh
    from raptor.training.train import measure_training, prepare_training, run_training, to_config

    options = replace(options, batch_size=run_options.batch, seed=run_options.seed)
    setup = prepare_training(data, options, eval_data, eval_images, loading, run_options)
    config = to_plain({
        "data": data, "images": len(setup.images), "device": run_options.device, **to_config(setup),
        "image_size": setup.vit.image_size, "eval_data": eval_data, "eval_images": eval_images, **to_plain(loading),
    })  # fmt: skip
    resume = resume or is_restarted()
    with Run("train", config, run_options.out, run_options.seed, distributed=True) as run:
        check_fresh(run.out, resume, {**config, "seed": run.seed})
        run.begin()
        model, seconds = run_training(setup, data, loading, run_options, resume, run_options.progress)
        if not is_main_process():
            return None
        result = measure_training(setup, model, seconds, run_options.progress)
        return run.record(result, images=result.top1.n, layers=options.depth, damaged=setup.damaged)
