"""Tables of the page: surrogates and their cost, probes, claims, where everything comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from raptor.formatting import HELD
from raptor.reporting.answer import measured, name_of, surrogates
from raptor.reporting.collect import Piece, Subject
from raptor.reporting.numbers import interval, number

METRICS = {
    "classify": {"top1": ".1%", "top5": ".1%"},
    "segment": {"miou": ".3f", "pixel_accuracy": ".1%"},
    "depth": {"rmse": ".3f", "abs_rel": ".3f", "delta1": ".1%"},
}


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and rows of as many cells."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def cost(subject: Subject) -> Table:
    """Return what each surrogate costs and keeps."""
    rows = []
    for piece in surrogates(subject):
        at = measured(piece)
        rows.append(
            (name_of(piece), number(piece, "phases"),
             number(piece, f"{at}parameters/surrogate", ","), number(piece, f"{at}parameters/ratio", ".3f"),
             number(piece, f"{at}flops/ratio", ".3f"), number(piece, "runtime_ratio", ".2f"),
             number(piece, f"{at}levin_bits/at_fewest_bits", ",.0f"), interval(piece, f"{at}recovered", ".1%"),
             number(piece, f"{at}r2/all/-1", ".3f"), number(piece, "images", ","))
        )  # fmt: skip
    columns = ("surrogate", "phases", "parameters", "of the teacher's", "operations, ratio", "runtime, ratio",
               "description, bits", "accuracy recovered", "R2, last layer", "n")  # fmt: skip
    return Table("What surrogates keep, and what they cost", columns, rows)


def probes(subject: Subject) -> Table:
    """Return what linear heads read from each model."""
    rows = []
    for piece in subject.of("probe"):
        found = piece.result.get("tasks") or {piece.result["task"]: piece.result}
        for task, body in found.items():
            at = f"tasks/{task}/" if "tasks" in piece.result else ""
            for head in body.get("heads", {}):
                shown = [
                    Markup("{} {}").format(metric, interval(piece, f"{at}heads/{head}/{metric}", form))
                    for metric, form in METRICS[task].items()
                ]
                rows.append((piece.result["model"], task, head, Markup(", ").join(shown), number(piece, "images", ",")))
    return Table("Linear probes on frozen tokens", ("model", "task", "head", "metrics", "n"), rows)


def claims(subject: Subject) -> Table:
    """Return what the paper says of dynamics, and what is seen here."""
    rows = [
        (claim["text"], HELD[claim["held"]], claim["evidence"])
        for piece in subject.of("dynamics")
        for claim in piece.result.get("claims", [])
    ]
    return Table("What the paper says, and what is seen here", ("claim", "here", "evidence"), rows)


def studies(subject: Subject) -> Table:
    """Return the claims of studies."""
    rows = [
        (piece.result["study"], piece.result["claim"]["text"], HELD[piece.result["claim"]["held"]],
         piece.result["claim"]["evidence"])
        for piece in subject.of("study")
    ]  # fmt: skip
    return Table("Studies", ("study", "claim", "here", "evidence"), rows)


def provenance(subject: Subject) -> list[Table]:
    """Return how to get every result again: stages, the models' weights, and the commands with what they ran on."""
    stages = [
        (piece.folder.name, piece.verb, number(piece, "seed"), number(piece, "images", ","),
         number(piece, "seconds", ",.1f"))
        for piece in subject.pieces
    ]  # fmt: skip
    ran = [(_command(piece), _versions(piece.config), _machine(piece.config)) for piece in subject.pieces]
    commands = [(Markup("<code>{}</code>").format(command), *rest) for command, *rest in dict.fromkeys(ran)]
    weights = [
        (piece.result["model"], Markup("<code>{}</code>").format(number(piece, "sha256")))
        for piece in subject.of("inspect")
    ]
    found = [
        Table("Stages", ("stage", "verb", "seed", "images", "seconds"), stages),
        Table("Weights", ("model", "sha256"), weights),
        Table("Commands", ("command", "versions", "machine"), commands),
    ]
    return [table for table in found if table.rows]


def _command(piece: Piece) -> str:
    return " ".join(["raptor", *map(str, piece.config.get("command", [piece.verb]))])


def _machine(config: dict[str, Any]) -> str:
    return "; ".join(str(config[name]) for name in ("machine", "determinism") if config.get(name))


def _versions(config: dict[str, Any]) -> str:
    versions = config.get("versions") or {}
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)
