"""Surrogates as models of transformers, with `save_pretrained`, `from_pretrained` and `AutoModel`.

A saved surrogate does not need its teacher: it contains the teacher's embedding, final norm and classifier, but not its
blocks. Importing this module registers the classes with transformers' Auto classes. `remote` adds what programs
without raptor need.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from raptor.core.flow import Head, layers_of
from raptor.core.phases import Phases
from raptor.core.preprocessing import Preprocessing
from raptor.errors import RaptorError, WeightsError, one_line
from raptor.models.checkpoints import SURROGATE_TYPE
from raptor.models.raptor import TeacherBlock
from raptor.models.relaxation import RelaxedBlock
from raptor.models.remote.files import AUTO_MAP, is_self_contained, write_hub_files
from raptor.models.surrogate import Surrogate, build_raptor
from raptor.models.teachers.skeleton import rebuild
from raptor.models.teachers.teacher import Teacher
from raptor.models.teachers.user_code import SCHEME
from raptor.models.weights import fingerprint
from raptor.runtime.optional_imports import import_transformers, silence

transformers: Any = import_transformers()

# Arguments of `from_pretrained` that say where files come from.
HUB_OPTIONS = ("cache_dir", "force_download", "local_files_only", "token", "revision", "subfolder")


class RaptorConfig(transformers.PreTrainedConfig):
    """The configuration of a surrogate.

    Parameters
    ----------
    phases
        Lengths of the phases, such as `7-3-2`.
    kind, block
        Kind of the tied blocks and their options, as in `build_raptor`.
    teacher
        Description of the teacher, from which the embedding, norm and classifier are built.
    preprocessing
        Preprocessing of images.
    provenance
        Origin of the surrogate: the teacher's name and hash, data, recipe, seed, versions, fidelity.
    names
        Version of the parameter names: 1 had names of wrapped linear maps (`old_names`).
    **rest
        Further settings of a transformers configuration.
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
        names: int = 1,
        **rest: Any,
    ):
        self.phases, self.kind, self.block, self.names = phases, kind, block or {}, names
        self.teacher, self.preprocessing, self.provenance = teacher or {}, preprocessing or {}, provenance or {}
        super().__init__(**rest)


class RaptorModel(transformers.PreTrainedModel):
    """A surrogate as a model of transformers, without its teacher's blocks; its depth flow is `surrogate`.

    Parameters
    ----------
    config
        Describes the teacher, the phases and the blocks. Weights are random until they are loaded.
    teacher
        The teacher's module, if it is the user's own code; it is copied.
    """

    config_class = RaptorConfig
    base_model_prefix = "raptor"
    main_input_name = "pixel_values"
    _supports_sdpa = True

    def __init__(self, config: RaptorConfig, teacher: nn.Module | None = None):
        super().__init__(config)
        self.own_code = (teacher,)  # in a tuple, so that its weights are not part of this model
        if not config.teacher or not config.phases:
            raise WeightsError("config.json does not describe a surrogate: `teacher` or `phases` is missing")
        # `from_pretrained` builds on the meta device, where tensors that are not in the file would stay unset.
        with torch.device("cpu"):
            rebuilt = rebuild(config.teacher, _preprocessing(config), _name(config), copy.deepcopy(teacher))
            raptor = build_raptor(rebuilt, Phases.parse(config.phases), config.kind, **config.block)
        self.surrogate = Surrogate(rebuilt, raptor)
        del rebuilt.parts.blocks[:]  # the tied blocks are copies
        # Save all buffers: `from_pretrained` would leave non-persistent ones unset.
        for module in self.modules():
            module._non_persistent_buffers_set.clear()
        self.eval()
        self.post_init()

    @classmethod
    def from_pretrained(cls, source: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a surrogate as in transformers; old parameter names are translated."""
        hub = {name: kwargs[name] for name in HUB_OPTIONS if name in kwargs}
        config = kwargs.get("config") or cls.config_class.from_pretrained(source, **hub)
        if (config.names == 1 or "relax_rank" in config.block) and kwargs.get("state_dict") is None:
            file = transformers.utils.cached_file(source, "model.safetensors", **hub)
            kwargs["state_dict"], source = (state := load_file(file)), None
            for name, module in cls(config, kwargs.get("teacher")).named_modules():
                if isinstance(module, (TeacherBlock, RelaxedBlock)):
                    module.rename(module, state, f"{name}.")
        return super().from_pretrained(source, *args, **{**kwargs, "config": config})

    def save_pretrained(self, save_directory: str | Path, *args: Any, **kwargs: Any) -> None:
        """Save the surrogate as in transformers, with what `AutoModel` needs where raptor is not installed."""
        self.config.__dict__.pop("auto_map", None)
        if is_self_contained(self.config.teacher):
            self.config.auto_map = dict(AUTO_MAP)
        super().save_pretrained(save_directory, *args, **kwargs)
        write_hub_files(Path(save_directory), self.config.teacher, _preprocessing(self.config))

    def __deepcopy__(self, memo: dict[int, Any]) -> RaptorModel:
        """Build a new model, because the parts of a teacher belong to their module."""
        model = RaptorModel(copy.deepcopy(self.config), *self.own_code).to(self.device, self.dtype)
        model.load_state_dict(self.state_dict())
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the weights from construction."""

    def forward(
        self, pixel_values: Tensor, output_hidden_states: bool | None = None, return_dict: bool | None = None
    ) -> Any:
        """Return the tokens after the final norm and, on request, the states of layers 0..L before it."""
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
        """Name of the teacher, as it was loaded for distillation."""
        name = self.config.provenance.get("teacher", {}).get("name")
        if not isinstance(name, str) or name.startswith(SCHEME):  # a file must not choose what code runs
            raise WeightsError(
                "the config.json of this surrogate does not name a teacher that can be loaded"
                f"{f' without running code ({name})' if isinstance(name, str) else ''}; "
                "name it with --teacher (fidelity)"
            )
        return name

    @property
    def phases(self) -> Phases:
        """Phases of the tied blocks."""
        return self.surrogate.phases


def register_auto_classes() -> None:
    """Register surrogates with transformers: `AutoConfig` and `AutoModel` then load them without remote code."""
    transformers.AutoConfig.register(SURROGATE_TYPE, RaptorConfig, exist_ok=True)
    transformers.AutoModel.register(RaptorConfig, RaptorModel, exist_ok=True)


register_auto_classes()


def with_teacher(model: RaptorModel, teacher: Teacher) -> Surrogate:
    """Combine a saved surrogate with its teacher; raise a WeightsError if the teacher has other weights."""
    wanted = model.config.provenance.get("teacher", {})
    if wanted.get("sha256") not in (None, fingerprint(teacher.module)):
        raise WeightsError(
            f"this surrogate was distilled from {wanted.get('name', 'another teacher')!r}, whose weights differ from "
            f"those of {teacher.name!r}; use the original teacher"
        )
    return Surrogate(teacher, model.surrogate.raptor.to(teacher.device), model.config.provenance)


def load_surrogate(
    source: str | Path, dtype: torch.dtype = torch.float32, local: bool = True, teacher: nn.Module | None = None
) -> RaptorModel:
    """Load a surrogate from a directory that `save_pretrained` wrote, or from a hub id.

    Parameters
    ----------
    source
        Directory or hub id.
    dtype
        Data type of the weights.
    local
        Whether to use only local files.
    teacher
        The teacher's module, if it is the user's own code.
    """
    try:
        with silence():
            model, info = RaptorModel.from_pretrained(
                str(source), dtype=dtype, use_safetensors=True, local_files_only=local, output_loading_info=True,
                ignore_mismatched_sizes=True, **({} if teacher is None else {"teacher": teacher}),
            )  # fmt: skip
    except RaptorError:
        raise
    except Exception as error:
        # Invalid configurations and damaged weights raise almost any class.
        raise WeightsError(f"the surrogate in {str(source)!r} cannot be read: {one_line(error)}") from error
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            # A key, or a key with its shapes in the file and in the model.
            one = min(info[problem])
            shown = one if isinstance(one, str) else f"{one[0]} of shape {tuple(one[1])}, not {tuple(one[2])}"
            raise WeightsError(
                f"the weights in {str(source)!r} do not match its config.json: {problem.replace('_', ' ')}, such as "
                f"{shown}"
            )
    return model


def _preprocessing(config: RaptorConfig) -> Preprocessing:
    return Preprocessing.from_json(config.preprocessing)


def _name(config: RaptorConfig) -> str:
    return str(config.provenance.get("teacher", {}).get("name", "the teacher"))
