"""What each figure shows: its place on the page, how to read it, and the figure of the paper that it stands for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Caption:
    """Of one figure.

    Parameters
    ----------
    section
        Where on the page it stands.
    how
        One line on how to read it.
    paper
        Its number in the paper, or None where the paper has nothing of the kind.
    """

    section: str
    how: str
    paper: str | None = None


CAPTIONS = {
    # In the order of the page.
    "depth": Caption(
        "depth",
        "Bright: two layers hold alike tokens. Move k or choose other tokens: the cuts and what is marked as "
        "theirs follow. Phases show as bright squares on the diagonal, drift as a band that fades away from it.",
        "Figures 1 and 2",
    ),
    "remains": Caption("depth", "What each description leaves unexplained: the paler, the better."),
    "gallery": Caption("depth", "Several models in the same colours, each with its own cuts.", "Figure 1"),
    "norms": Caption("depth", "Mean length of tokens by layer, with 95% over images.", "Figure 7"),
    "fidelity": Caption(
        "surrogate",
        "R2 and squared correlation of the surrogate's tokens, rolled out from the embedding: 1 is the teacher itself. "
        "Dashed, what they must beat: standing still within a phase, and a token of another image.",
    ),
    "training": Caption(
        "surrogate",
        "Loss of both stages by step: the blocks apart first, then joined. Stages have losses of their own.",
    ),
    "figure5": Caption("worth", "Accuracy of the linear probes by number of blocks.", "Figure 5"),
    "convergence": Caption(
        "dynamics",
        "Cosine of a token's direction with the one that it ends in: 1 once it has settled.",
        "Figure 6, right",
    ),
    "trajectories": Caption(
        "dynamics", "Paths of class means through depth, in two principal directions of the sphere.", "Figure 6, left"
    ),
    "beyond": Caption(
        "dynamics", "Angular speed when the last block is applied again and again: 0 is a direction that stays."
    ),
    "basins": Caption(
        "dynamics",
        "Angle to the mean of the own class and of the others, and how often the nearest mean is the right one: where "
        "they part, a basin has formed.",
    ),
    "correction": Caption(
        "dynamics", "Angle to the unpushed trajectory after a push: falling lines are corrected.", "Figure 8, left"
    ),
    "sensitivity": Caption("dynamics", "How much of a push at a layer is left at the end.", "Figure 8, right"),
    "speed": Caption(
        "dynamics", "Angle that tokens turn from layer to layer; upright lines are where phases meet.", "Figure 9"
    ),
    "ranks": Caption(
        "dynamics", "In how many directions tokens are updated at each step, by three measures of rank.", "Figure 10"
    ),
    "coherence": Caption(
        "dynamics", "How far tokens of an image move together; dashed: what independent ones would have.", "Figure 10"
    ),
    "dmd": Caption(
        "dynamics",
        "Eigenvalues of depth as one linear map: inside the circle a mode fades, on it it lasts.",
        "appendix D",
    ),
    "expansion": Caption(
        "dynamics", "How fast neighbouring trajectories part (above 0) or meet (below 0) within each phase."
    ),
    "against": Caption(
        "dynamics", "Teacher and surrogate measured on the same images: is the surrogate the same system?"
    ),
    "interventions": Caption(
        "interventions",
        "What is left after layers are replaced, interchanged, skipped or repeated, within a phase and across phases.",
        "Figure 15 of the later version",
    ),
    "stochastic-depth": Caption("studies", "A dot is a student; the claim and its evidence are above.", "Figure 4"),
    "partitions": Caption("studies", "A dot is a student of one cut; found phases are in colour.", "Figure 3"),
    "emergence": Caption("studies", "One teacher along its training, from random weights to the end.", "Figure 11"),
    "ablation": Caption("studies", "A dot is a seed; rows are recipes.", "Table 2"),
    "k-curve": Caption("studies", "Fidelity and accuracy by number of blocks.", "Figure 5"),
}

SECTIONS = {
    "depth": "Depth",
    "film": "Depth film",
    "surrogate": "Surrogate",
    "worth": "What it is worth",
    "dynamics": "Dynamics",
    "interventions": "Layers changed",
    "studies": "Studies",
}
# Parts of what a linked figure shows at once: they are files of their own, not figures of the page.
LINKED = ("similarity", "scores", "certainty", "descriptions")
