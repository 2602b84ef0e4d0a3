"""Surrogates in the conventions of transformers: `save_pretrained`, `from_pretrained`, `AutoModel`.

A saved surrogate stands alone. The embedding, the final norm and the classifier of its teacher are inside, the
teacher's blocks are not. Importing this module registers the classes with transformers' Auto classes.
"""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from raptor.errors import RaptorError, UnsupportedModelError, WeightsError, one_line
from raptor.flow import Head, layers_of, rollout
from raptor.hub import import_transformers, silence
from raptor.models.store import SURROGATE_TYPE
from raptor.models.surrogate import Surrogate, build_raptor
from raptor.models.teachers.skeleton import describe, rebuild
from raptor.models.teachers.teacher import Teacher
from raptor.models.weights import fingerprint
from raptor.phases import Phases
from raptor.preprocessing import Preprocessing

transformers: Any = import_transformers()


class RaptorConfig(transformers.PreTrainedConfig):
    """What a surrogate is.

    Parameters
    ----------
    phases
        Lengths, `7-3-2`.
    kind, block
        Of the tied blocks, and their options, as in `build_raptor`.
    teacher
        What its embedding, norm and classifier are built from.
    preprocessing
        What it wants of images.
    provenance
        Where it comes from: the teacher's name and hash, data, recipe, seed, versions, fidelity.
    **rest
        What every configuration of transformers may have.
    """

    model_type = SURROGATE_TYPE

    def __init__(
        self,
        phases: str = "",
        kind: str = "teacher",
        block: dict[str, Any] | None = None,
        teacher: dict[str, Any] | None = None,
        preprocessing: dict[str, Any] | None = None,
        provenance: dict[str, Any] | None = None,
        **rest: Any,
    ):
        self.phases, self.kind, self.block = phases, kind, block or {}
        self.teacher, self.preprocessing, self.provenance = teacher or {}, preprocessing or {}, provenance or {}
        super().__init__(**rest)


class RaptorModel(transformers.PreTrainedModel):
    """A surrogate that stands alone, as a model of transformers; its depth flow is `surrogate`.

    Parameters
    ----------
    config
        Describes the teacher, the phases and the blocks; weights are random until they are loaded.
    """

    config_class = RaptorConfig
    base_model_prefix = "raptor"
    main_input_name = "pixel_values"
    _supports_sdpa = True

    def __init__(self, config: RaptorConfig):
        super().__init__(config)
        if not config.teacher or not config.phases:
            raise WeightsError("this configuration describes no surrogate: it has no teacher or no phases")
        # `from_pretrained` builds models without memory, which leaves everything unset that is not in the file.
        with torch.device("cpu"):
            teacher = rebuild(config.teacher, _preprocessing(config), _name(config))
            raptor = build_raptor(teacher, Phases.parse(config.phases), config.kind, **config.block)
        self.surrogate = Surrogate(teacher, raptor)
        del teacher.parts.blocks[:]  # the teacher's own; the tied ones are copies
        # Tables that belong to the grid are saved too: a loader would leave them unset.
        for module in self.modules():
            module._non_persistent_buffers_set.clear()
        self.eval()
        self.post_init()

    def __deepcopy__(self, memo: dict[int, Any]) -> RaptorModel:
        """Build it again: the parts of a teacher belong to the module that they came from."""
        model = RaptorModel(copy.deepcopy(self.config)).to(self.device, self.dtype)
        model.load_state_dict(self.state_dict())
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """Leave everything as it was built."""

    def forward(
        self, pixel_values: Tensor, output_hidden_states: bool | None = None, return_dict: bool | None = None
    ) -> Any:
        """Return the tokens after the final norm and, when asked for, the states of the layers 0..L before it."""
        wanted = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        states, tokens = [], pixel_values
        for _, tokens in layers_of(self.surrogate, self.surrogate.embed(pixel_values)):
            if wanted:
                states.append(tokens)
        output = transformers.modeling_outputs.BaseModelOutput(
            last_hidden_state=self.surrogate.readout(tokens), hidden_states=tuple(states) if wanted else None
        )
        return output if return_dict is not False else output.to_tuple()

    @property
    def head(self) -> Head | None:
        """The teacher's classifier on layer-L states, or None."""
        return self.surrogate.head

    @property
    def teacher_name(self) -> str:
        """What the teacher that it was made from is called."""
        name = self.config.provenance.get("teacher", {}).get("name")
        if not isinstance(name, str):
            raise WeightsError(
                "the config.json of this surrogate does not say which teacher it was made from; fidelity takes one "
                "with --teacher"
            )
        return name

    @property
    def phases(self) -> Phases:
        """Which block makes which layer."""
        return self.surrogate.phases


transformers.AutoConfig.register(SURROGATE_TYPE, RaptorConfig)
transformers.AutoModel.register(RaptorConfig, RaptorModel)


def standalone(
    surrogate: Surrogate, kind: str, block: dict[str, Any] | None = None, provenance: dict[str, Any] | None = None
) -> RaptorModel:
    """Return a surrogate with everything that it needs of its teacher, ready for `save_pretrained`.

    Parameters
    ----------
    surrogate
        With its teacher.
    kind, block
        What it was built with.
    provenance
        Anything that JSON can hold; it is kept in the configuration and told in the model card.
    """
    teacher = surrogate.teacher
    config = RaptorConfig(
        phases=str(surrogate.phases),
        kind=kind,
        block=block,
        teacher=describe(teacher),
        preprocessing=asdict(teacher.preprocessing),
        provenance={
            "teacher": {"name": teacher.name, "sha256": fingerprint(teacher.module)},
            "training": surrogate.record,
            **(provenance or {}),
        },
        hidden_size=teacher.width,
        num_hidden_layers=teacher.depth,
        num_attention_heads=teacher.parts.heads,
    )
    model = RaptorModel(config)
    state = surrogate.state_dict()
    for name, buffer in surrogate.named_buffers():
        state.setdefault(name, buffer)
    wanted = model.surrogate.state_dict()
    model.surrogate.load_state_dict({name: state[name] for name in wanted})
    model = model.to(next(teacher.module.parameters()))
    _check_same(model, surrogate)
    return model


@torch.no_grad()
def _check_same(model: RaptorModel, surrogate: Surrogate) -> None:
    """Make sure that what was rebuilt computes the same: an option that a library does not keep would show here."""
    pixels = torch.randn(1, 3, *surrogate.teacher.image_size, generator=torch.Generator().manual_seed(0))
    ours, theirs = (rollout(flow, flow.embed(pixels)).states for flow in (model.surrogate, surrogate))
    if not theirs.isfinite().all():
        raise WeightsError(f"states of this surrogate of {surrogate.teacher.name!r} are not finite: it is not saved")
    if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3 * float(theirs.abs().max())):
        raise UnsupportedModelError(
            f"{surrogate.teacher.name!r} was built with options that it does not keep: built again from its "
            "configuration it computes something else, so that no surrogate of it can stand alone"
        )


def with_teacher(model: RaptorModel, teacher: Teacher) -> Surrogate:
    """Join a surrogate that stands alone to the teacher that it was made from, to be measured against it."""
    wanted = model.config.provenance.get("teacher", {})
    if wanted.get("sha256") not in (None, fingerprint(teacher.module)):
        raise WeightsError(
            f"this surrogate was made from {wanted.get('name', 'another teacher')!r} with other weights than those of "
            f"{teacher.name!r}; give the teacher that it was made from"
        )
    return Surrogate(teacher, model.surrogate.raptor.to(teacher.device), model.config.provenance)


def load_surrogate(source: str | Path, dtype: torch.dtype = torch.float32, local: bool = True) -> RaptorModel:
    """Read what `save_pretrained` wrote into a directory, or `push_to_hub` to an id."""
    try:
        with silence():
            model, info = RaptorModel.from_pretrained(
                str(source), dtype=dtype, use_safetensors=True, local_files_only=local, output_loading_info=True,
                ignore_mismatched_sizes=True,
            )  # fmt: skip
    except RaptorError:
        raise
    except Exception as error:
        # Nonsense in the configuration and damaged weights come as almost any kind.
        raise WeightsError(f"the surrogate in {str(source)!r} cannot be read: {one_line(error)}") from error
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            # A key, or one with its shape in the file and in the model.
            one = min(info[problem])
            told = one if isinstance(one, str) else f"{one[0]} of {tuple(one[1])}, not {tuple(one[2])}"
            raise WeightsError(
                f"the weights in {str(source)!r} are not those of its config.json: {problem.replace('_', ' ')}, "
                f"such as {told}"
            )
    return model


def _preprocessing(config: RaptorConfig) -> Preprocessing:
    return Preprocessing.from_json(config.preprocessing)


def _name(config: RaptorConfig) -> str:
    return str(config.provenance.get("teacher", {}).get("name", "the teacher"))
