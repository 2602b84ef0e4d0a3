"""The answer in a paragraph: what was found of a model, how sure it is, and what did not hold."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from raptor.reporting.collect import Piece, Subject
from raptor.reporting.numbers import interval, lookup, number


def answer(subject: Subject) -> list[Markup]:
    """Return sentences, from the phases to the surrogates."""
    said = [_depth(piece) for piece in subject.of("phases") if "k" in piece.result]
    return said + [_surrogate(piece) for piece in surrogates(subject)]


def surrogates(subject: Subject) -> list[Piece]:
    """Return the runs that measured a surrogate; those that trained one where there is no other."""
    return subject.of("fidelity") or subject.of("distill")


def measured(piece: Piece) -> str:
    """Return where the numbers of fidelity stand in a result."""
    return "fidelity/" if piece.verb == "distill" else ""


def name_of(piece: Piece) -> str:
    """Return what a surrogate is called: the one that was trained in the same run has no name of its own."""
    name = str(piece.result.get("surrogate", ""))
    if not name and piece.verb == "fidelity":
        return "The surrogate"
    own = not name or Path(name).resolve() == (piece.folder.parent / "distill").resolve()
    return "Trained here" if own else name


def _depth(piece: Piece) -> Markup:
    frequency = lookup(piece.result, "bootstrap/boundary_frequency") or {}
    cut = [frequency.get(str(layer), 0.0) for layer in piece.result.get("boundaries", [])]
    sure = (
        Markup(", and its least certain boundary comes back in {:.0%} of {} resamples").format(
            min(cut), number(piece, "bootstrap/n", ",")
        )
        if cut and lookup(piece.result, "bootstrap")
        else ""
    )
    return Markup(
        "{}On {} images, its {} layers read as <strong>{}</strong>. Cut into {} phases, the best is "
        "<strong>{}</strong>{}; the number that similarity alone suggests is {}."
    ).format(
        Markup("<strong>{}</strong> on {}. ").format(number(piece, "model"), number(piece, "data"))
        if piece.result.get("data") else "",
        number(piece, "images", ","), number(piece, "layers"), number(piece, "verdict"), number(piece, "k"),
        number(piece, "phases"), sure, number(piece, "suggested_k"),
    )  # fmt: skip


def _surrogate(piece: Piece) -> Markup:
    at = measured(piece)
    right = (
        Markup("recover {} of the teacher's accuracy ({} against {}) and ").format(
            interval(piece, f"{at}recovered", ".1%"), number(piece, f"{at}surrogate_top1", ".1%"),
            number(piece, f"{at}teacher_top1", ".1%"),
        )
        if lookup(piece.result, f"{at}recovered") is not None
        else ""
    )  # fmt: skip
    return Markup(
        "{}: the tied blocks <strong>{}</strong>, with {} of the parameters and {} of the operations, {}reach an R2 of "
        "{} [{}, {}] at the last layer (n = {} images{})."
    ).format(
        name_of(piece), number(piece, "phases"), number(piece, f"{at}parameters/ratio", ".3f"),
        number(piece, f"{at}flops/ratio", ".3f"), right, number(piece, f"{at}r2/all/-1", ".3f"),
        number(piece, f"{at}r2_ci/all/0/-1", ".3f"), number(piece, f"{at}r2_ci/all/1/-1", ".3f"),
        number(piece, "images", ","), " that it was not trained on" if piece.result.get("data") else "",
    )  # fmt: skip


def did_not_hold(subject: Subject) -> list[str]:
    """Return what the paper says and these runs do not bear out."""
    said = []
    for piece in subject.of("phases"):
        if piece.result.get("verdict") not in (None, "blocks"):
            said.append(
                f"Phases: the similarity of layers is described at least as well by {piece.result['verdict']} as by "
                "blocks, so cuts are a choice, not a finding."
            )
    for piece in subject.of("dynamics"):
        said += [_refuted(claim) for claim in piece.result.get("claims", []) if claim.get("held") is False]
    said += [_refuted(piece.result["claim"]) for piece in subject.of("study") if piece.result["claim"]["held"] is False]
    return said


def _refuted(claim: dict[str, object]) -> str:
    return f"The paper: {claim['text']}. Not here: {claim['evidence']}."
