"""Options of `raptor distill`, `raptor export` and `raptor push`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from raptor.core.options import Option

if TYPE_CHECKING:
    from raptor.distillation.hyperparameters import Distillation
    from raptor.training.accelerate import LaunchOptions

STEPS = 2000
BATCH_SIZE = 64  # of the paper, and of the script that its authors released

Recipe = Annotated[
    str,
    Option("Hyper-parameters: default (raptor's), paper (the paper's) or released (those of the authors' code)."),
]


@dataclass(frozen=True)
class DistillOptions:
    """How a surrogate is trained.

    Parameters
    ----------
    recipe
        `default`, `paper` or `released`: the hyper-parameters that the other options change.
    steps
        Optimiser steps of each of the two stages.
    blockwise_steps
        Optimiser steps of stage 1 in place of `steps`; None for as many.
    lr, muon_lr
        Peak learning rates of AdamW and Muon in place of the recipe's. `muon_lr` is that of stage 1, and stage 2 keeps
        its share of it; 0 trains everything with AdamW.
    kind
        Kind of the tied blocks: `teacher`, `swiglu` or `gelu`; None for the recipe's.
    relax_rank
        Rank of a low-rank correction of the tied weights for each layer; 0 for none.
    crop
        Smallest share of an image that random crops show; 1 for whole images, None for the recipe's.
    window
        Side of the window of patches that stage 1 sees, over the side of the image; 1 for all patches, None for the
        recipe's. Stage 2 sees all patches.
    error
        What the loss is: `squared` error, or squared error over the `variance` of each layer and token group, or over
        the `token-variance` of each layer and token position; None for the recipe's.
    head_weight
        Weight of a loss on the classes that the teacher's classifier predicts, in stage 2. With 0, the surrogate learns
        the teacher's states alone, as in the paper.
    untied
        Control experiment: apply each block once, which gives a network of k layers.
    precision
        Precision of matrix products: `no` (that of the weights), `bf16` or `fp16`.
    gradient_accumulation_steps
        Parts of a batch that are computed one after another.
    gradient_checkpointing
        Compute activations inside blocks again for the gradient, which needs less memory and more time.
    compile
        Compile the blocks of teacher and surrogate with `torch.compile`.
    tf32
        Use TF32 for matrix products of single precision on GPUs that have it.
    track
        Trackers to log to, besides metrics.jsonl: `tensorboard`, `wandb`.
    batch_size
        Images per step; None for the recipe's 64.
    seed
        Seed of the initial weights, the order of images and everything else that is drawn.
    """

    recipe: Recipe = "default"
    steps: Annotated[
        int, Option("Training steps per stage. Stage 1 trains each block alone, stage 2 all blocks together.", min=1)
    ] = STEPS
    blockwise_steps: Annotated[
        int | None, Option("Training steps of stage 1 alone; 0 leaves it out. Default: --steps.", min=0)
    ] = None
    lr: Annotated[float | None, Option("Peak learning rate of AdamW. Default: the recipe's.")] = None
    muon_lr: Annotated[
        float | None,
        Option("Peak learning rate of Muon, for weight matrices; 0 uses AdamW instead. Default: the recipe's."),
    ] = None
    kind: Annotated[
        str | None,
        Option(
            "Architecture of the blocks: teacher (like the teacher's), swiglu (the paper's) or gelu (a standard ViT "
            "block). Default: the recipe's."
        ),
    ] = None
    relax_rank: Annotated[
        int, Option("Give each layer its own low-rank (LoRA) correction of the tied weights, of this rank.", min=0)
    ] = 0
    crop: Annotated[
        float | None,
        Option("Smallest share of an image that random crops show; training also mirrors images. 1 trains on whole "
               "images. The recipe's by default.", min=0.01, max=1),
    ] = None  # fmt: skip
    window: Annotated[
        float | None,
        Option("Side of the random window of patches that stage 1 sees, as a share of the image's side. Smaller is "
               "faster; 1 shows all patches, as stage 2 does. The recipe's by default.", min=0.01, max=1),
    ] = None  # fmt: skip
    error: Annotated[
        str | None,
        Option("Error that is trained on: squared, variance (squared error over the variance of each layer and token "
               "group) or token-variance (over that of each layer and token position). The recipe's by default."),
    ] = None  # fmt: skip
    head_weight: Annotated[
        float,
        Option("Weight of an extra loss in stage 2: the divergence of the classes that the model's classifier predicts "
               "from the surrogate's last layer. With 0, the surrogate learns tokens alone, as in the paper.", min=0),
    ] = 0.0  # fmt: skip
    untied: Annotated[
        bool,
        Option(
            "Control experiment: apply each block only once, which makes a network of k layers.", flags=("--untied",)
        ),
    ] = False
    precision: Annotated[
        str,
        Option("Mixed precision: bf16, fp16 or no (full precision)."),
    ] = "no"
    gradient_accumulation_steps: Annotated[
        int, Option("Process each batch in this many parts, to save memory.",
                    aliases=("--accumulate",), min=1)
    ] = 1  # fmt: skip
    gradient_checkpointing: Annotated[
        bool, Option("Recompute activations in the backward pass. This saves memory and takes about a third more time.",
                     flags=("--gradient-checkpointing",), aliases=("--recompute",))
    ] = False  # fmt: skip
    compile: Annotated[
        bool, Option("Compile the blocks of teacher and surrogate with torch.compile: a slow start, then faster steps. "
                     "Results differ by rounding.", flags=("--compile",))
    ] = False  # fmt: skip
    tf32: Annotated[
        bool, Option("Use TF32 for matrix products on GPUs that have it: faster, and less precise.", flags=("--tf32",))
    ] = False
    track: Annotated[
        tuple[str, ...],
        Option("Also log to tensorboard, wandb or both (tensorboard,wandb).",
               parse=lambda text, name: tuple(text.split(","))),
    ] = ()  # fmt: skip
    batch_size: int | None = None
    seed: int = 0

    def recipe_config(self) -> dict[str, Any]:
        """Return what `config.json` has under `recipe`; a resumed run compares it."""
        config: dict[str, Any] = {
            "name": self.recipe, "steps": self.steps, "lr": self.lr, "muon_lr": self.muon_lr, "kind": self.kind,
        }  # fmt: skip
        later = {
            "blockwise_steps": self.blockwise_steps, "crop": self.crop, "window": self.window, "error": self.error,
            "head_weight": self.head_weight or None,
        }  # fmt: skip
        return {**config, **{name: value for name, value in later.items() if value is not None}, **self._block()}

    def launch_config(self) -> dict[str, Any]:
        """Return what `config.json` has under `launch`; a resumed run compares it."""
        return {
            "precision": self.precision, "accumulate": self.gradient_accumulation_steps,
            "recompute": self.gradient_checkpointing, "trackers": self.track,
            **({"compile": True} if self.compile else {}), **({"tf32": True} if self.tf32 else {}),
        }  # fmt: skip

    def distillation(self) -> Distillation:
        """Return the whole recipe with these changes."""
        from raptor.distillation.recipes import distillation_named

        return distillation_named(**self.recipe_config(), batch_size=self.batch_size or BATCH_SIZE, seed=self.seed)

    def launch(self) -> LaunchOptions:
        """Return precision, accumulation, checkpointing and trackers as `fit` takes them."""
        from raptor.training.accelerate import LaunchOptions

        return LaunchOptions.from_config(self.launch_config())

    def _block(self) -> dict[str, Any]:
        return {
            **({"relax_rank": self.relax_rank} if self.relax_rank else {}), **({"untied": True} if self.untied else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class ExportOptions:
    """How a model is written for another runtime.

    Parameters
    ----------
    format
        `torch-export` or `onnx`.
    """

    format: Annotated[str, Option("File format: torch-export or onnx.")] = "torch-export"


@dataclass(frozen=True)
class PushOptions:
    """How a surrogate is published.

    Parameters
    ----------
    license
        Identifier of the licence in its card; None for the teacher's, `unknown` if its card states none.
    private
        Whether only the owner of the hub id sees it.
    dry_run
        Show what would be uploaded, and upload nothing.
    """

    license: Annotated[
        str | None,
        Option("Licence of the surrogate, such as apache-2.0. Default: the teacher's, which it contains parts of."),
    ] = None
    private: Annotated[bool, Option("Make the model visible only to you.", flags=("--private",))] = False
    dry_run: Annotated[bool, Option("Show what would be uploaded, and stop.", flags=("--dry-run",))] = False
