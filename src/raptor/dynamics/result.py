"""Results of `raptor dynamics`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated

from raptor.core.estimate import Estimate, LayerEstimates
from raptor.core.phases import Phases
from raptor.core.serialize import Key, key
from raptor.dynamics.basins import Basins
from raptor.dynamics.claims.claim import Claim
from raptor.dynamics.coupling import Coupling
from raptor.dynamics.curves.image_ranks import ImageRanksResult
from raptor.dynamics.dmd.pooled import Modes
from raptor.dynamics.dmd.random_walk import RandomWalkNull
from raptor.dynamics.dmd.single_images import ImageModes
from raptor.dynamics.fixed_points import FixedPointResult
from raptor.dynamics.lyapunov import LyapunovResult
from raptor.dynamics.paths import Paths
from raptor.dynamics.perturbations.mixing import Mixing
from raptor.dynamics.perturbations.sensitivity import Correction, Sensitivity
from raptor.dynamics.stationarity import Stationarity
from raptor.inspection.separate import OutlierGroup
from raptor.render.notebook import HtmlRepr


@dataclass(frozen=True)
class DMDResult:
    """A linear map of all layers, fitted to the unit group means of one half of the images, for one token group.

    Parameters
    ----------
    eigenvalues, rank
        Eigenvalues by decreasing modulus, and their number: at most 10, and at most the numerical rank of the states.
    spectral_radius, median_modulus
        Largest and median modulus of the eigenvalues, with jackknife intervals over images.
    singular
        The largest 32 singular values of the states.
    one_step_error, rollout_error
        Relative errors at the layers 1..L on the other half of the images: from the layer before, and from layer 0.
    amplitudes
        Modulus of each mode's coefficient in the mean state at layer 0.
    random_walk
        The same fit on a random walk with the same start and speed.
    single_images
        Maps of single images.
    modes
        The map itself. Not in result.json.
    maps
        The map, and those without each part of the images in turn. Not in result.json.
    """

    eigenvalues: list[complex]
    rank: int
    spectral_radius: Estimate[float]
    median_modulus: Estimate[float]
    singular: list[float]
    one_step_error: Estimate[list[float]]
    rollout_error: Estimate[list[float]]
    amplitudes: list[float]
    random_walk: RandomWalkNull
    single_images: ImageModes
    modes: Modes | None = key(None, skip=True)
    maps: list[Modes] | None = key(None, skip=True)


@dataclass(frozen=True)
class CurveDistance:
    """Distance between two curves.

    Parameters
    ----------
    mean, most
        Mean and maximum of the absolute difference over layers.
    relative
        Mean difference over the range of the first curve; NaN where that curve is flat.
    """

    mean: float
    most: float
    relative: float


@dataclass(frozen=True, kw_only=True)
class ModelDynamics:
    """The depth of one model as a dynamical system.

    Parameters
    ----------
    curves
        By name, every registered measure with one number per layer or step: norm, gamma, speed, speed_std, stable_rank,
        entropy_rank, participation_ratio, coherence.
    image_ranks
        Effective ranks of the updates of single images; None where every group has a single token.
    coherence_floor
        By token group, the coherence of independent updates.
    converged_layer
        By token group, the first layer with gamma above 0.9.
    dmd
        By token group, the linear map of all layers.
    paths
        By token group, trajectories in principal directions.
    basins
        By token group, basins of classes; None without labels.
    sensitivity, correction
        Effect of perturbations on the last layer, and how perturbed groups return.
    phases
        The phases; None where none were given or wanted.
    stationarity
        Test whether speed is steady within phases and changes between them: cls at the boundaries of patches together
        with patches at those of cls. None where there is one phase or one token group.
    mixing
        Where mixtures of two images end; None where there is no pair of images.
    coupling
        By token group, how far the Jacobians of layers share their singular vectors; empty where it was left out.
    last_layer
        By token group, the last layer whose states count: L, or L - 1 for tokens that the model's own head does not
        read at layer L, and that training therefore left undetermined.
    lyapunov
        Lyapunov exponents of each phase; None without phases.
    lyapunov_from
        The command that measured them, if they come with a bundled model.
    beyond
        The last step repeated beyond the last layer; None where it was not measured.
    claims
        The claims of the paper, and whether each holds for this model.
    outliers
        Which patches are the token group `outlier`; None where outliers are not separate.
    n, seed
        Number of images, and the seed of everything random. Not in result.json, whose envelope has both.
    """

    curves: Annotated[dict[str, LayerEstimates], Key(inline=True)]
    image_ranks: ImageRanksResult | None = key(None, inline=True)
    coherence_floor: dict[str, float]
    converged_layer: Annotated[dict[str, Estimate[int | float]], Key(name="settled_layer")]
    dmd: dict[str, DMDResult]
    paths: dict[str, Paths]
    basins: dict[str, Basins] | None
    sensitivity: Sensitivity
    correction: Correction
    phases: Phases | None
    stationarity: Stationarity | None = None
    mixing: Mixing | None = None
    coupling: dict[str, Coupling] = field(default_factory=dict)
    last_layer: dict[str, int] = field(default_factory=dict)
    lyapunov: LyapunovResult | None
    lyapunov_from: str | None = key(None, omit_none=True)
    beyond: FixedPointResult | None = key(None, omit_none=True)
    claims: list[Claim] = field(default_factory=list)
    outliers: OutlierGroup | None = key(None, omit_none=True)
    n: int = key(0, skip=True)
    seed: int = key(0, skip=True)


@dataclass(frozen=True)
class SameSystem:
    """Distance between the dynamics of two models.

    Parameters
    ----------
    held
        Whether both have the same dynamics; None if inconclusive.
    distance
        Mean over token groups of the distance between their linear maps, with a jackknife interval over images.
    null
        Mean distance between the maps of different token groups of the first model; None where it has one group.
    """

    held: bool | None
    distance: Estimate[float]
    null: float | None = None


@dataclass(frozen=True)
class Against:
    """Other models on the same images.

    Parameters
    ----------
    models
        Dynamics of the other models, by name.
    distances
        By pair of models (`first | second`), measure and token group: the distance between both curves.
    operators
        By pair of models and token group: the distance between their linear maps up to a rotation, relative to their
        size (Dynamical Similarity Analysis); 0 for the same dynamics.
    same_system
        By pair of models with the first one: whether both have the same dynamics.
    """

    models: dict[str, ModelDynamics]
    distances: dict[str, dict[str, dict[str, CurveDistance]]]
    operators: dict[str, dict[str, float]] = field(default_factory=dict)
    same_system: dict[str, SameSystem] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DynamicsResult(ModelDynamics, HtmlRepr):
    """The depth of a model as a dynamical system, and other models beside it.

    It has all fields of `ModelDynamics`, and one more.

    Parameters
    ----------
    against
        Other models on the same images; None where there are none.
    """

    against: Against | None = None

    @classmethod
    def of(cls, model: ModelDynamics, against: Against | None = None) -> DynamicsResult:
        """Add other models to the dynamics of a model."""
        measured = {one.name: getattr(model, one.name) for one in fields(ModelDynamics)}
        return cls(**measured, against=against)
