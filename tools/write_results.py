"""Write docs/results.md from the results that are kept in docs/results: no number on that page is typed by hand.

    python tools/write_results.py

`tests/test_results_page.py` keeps the page as the files are.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from raptor.formatting import HELD
from raptor.studies.ablation import TUNED

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "results"
Rows = list[dict[str, Any]]

HEAD = """# Results of the studies

Every number here is read from the files in `docs/results` by `python tools/write_results.py`: results, figures and jobs
as the commands wrote them, with where the images lay left out. All is on CIFAR-100 (50,000 training images of 32x32
pixels; what is measured is measured on held-out ones), on one or two cores without a GPU. These are small models: what
the paper says of ViT-B is quoted beside them, and a difference may be one of size.
"""

# What the paper says, in our words; its own numbers.
PAPER = {
    "stochastic-depth": "Figure 4: with the rate of stochastic depth, layers become more alike and Raptors closer to "
    "their teachers, while accuracy peaks at a middle rate; similarity predicts how close a Raptor gets. A "
    "summary gives R2 of about .88 at rate 0 and about .94 at .6; a later version says that rates of .7 to .9 train "
    "badly.",
    "partitions": "Figure 3: Raptors with the found cuts are near or above one standard deviation over ten "
    "random ones.",
    "emergence": "Figure 11: training (with a rate of .3) raises the similarity within phases and how well cls is "
    "reconstructed; a Raptor reconstructs a ViT of random weights too.",
    "ablation": "Table 2, k = 3, ImageNet top-1: teacher forcing alone 1.2, + autoregressive 62.1, + depth scaling "
    "63.3, + weighted cls 67.9, + joined stage 81.2, + probe fine-tuning 82.1 (a later version: 3.9, 72.7, 75.2, 76.7, "
    "82.4, 83.0).",
    "k-curve": "Table 1 and Figure 5: k = 2, 3, 4 recover 94.4, 97.0, 97.3% of DINOv2-B's top-1 (a later version: "
    "96.1, 98.2, 98.5%): most is gained from 2 to 3.",
    "gallery": "Figure 1: all of the models that are shown have contiguous blocks of layers that are alike.",
}
TITLES = {
    "stochastic-depth": "Stochastic depth",
    "partitions": "Found cuts and others",
    "emergence": "Along training",
    "ablation": "What each part of the recipe adds",
    "k-curve": "How many blocks",
    "gallery": "Several teachers",
}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _spread(values: list[float], form: Callable[[float], str] = "{:.3f}".format) -> str:
    """Mean, and the range where there are several."""
    mean = form(sum(values) / len(values))
    return mean if len(values) == 1 else f"{mean} ({form(min(values))} to {form(max(values))})"


def _stochastic_depth(rows: Rows) -> str:
    def line(rate: float) -> list[str]:
        own = [row for row in rows if row["drop_path"] == rate]
        first = own[0]
        return [
            f"{rate:g}", _percent(first["top1"]), _spread([row["student_top1"] for row in own], _percent),
            _spread([row["recovered"] for row in own], _percent), _spread([row["r2"] for row in own]),
            _spread([row["by_layer"]["pearson2"]["cls"][-1] for row in own]),
            _spread([row["by_layer"]["pearson2"]["patch"][-1] for row in own]), f"{first['within']:.3f}",
            f"{first['verdict']}, {first['phases']}",
        ]  # fmt: skip

    head = ("rate", "teacher", "Raptor, k = 3", "recovered", "R2, last layer", "pearson2 of cls", "of patches",
            "cosine within phases", "structure")  # fmt: skip
    return _table(head, (line(rate) for rate in sorted({row["drop_path"] for row in rows})))


def _partitions(rows: Rows) -> str:
    def line(k: int) -> list[str]:
        own = [row for row in rows if row["k"] == k and row["found"]]
        cuts = {row["phases"] for row in own}
        other = [row for row in rows if row["k"] == k and not row["found"] and row["phases"] not in cuts]
        best = max(other, key=lambda row: row["r2"])
        return [
            str(k), ", ".join(sorted(cuts)), _spread([row["r2"] for row in own]),
            _spread([row["recovered"] for row in own], _percent), str(len(other)),
            _spread([row["r2"] for row in other]), _spread([row["recovered"] for row in other], _percent),
            f"{best['phases']}, {best['r2']:.3f}",
        ]  # fmt: skip

    head = ("k", "found", "R2, over seeds", "recovered", "others", "their R2", "recovered", "best of them")
    return _table(head, (line(k) for k in sorted({row["k"] for row in rows})))


def _emergence(rows: Rows) -> str:
    head = ("share of training", "top-1", "cosine within phases", "between", "R2, last layer", "R2 of cls", "structure")
    return _table(
        head,
        (
            [f"{row['share']:.0%}", _percent(row["top1"]), f"{row['within']:.3f}", f"{row['between']:.3f}",
             f"{row['r2']:.3f}", f"{row['r2_cls']:.3f}", f"{row['verdict']}, {row['phases']}"]
            for row in rows
        ),
    )  # fmt: skip


def _ablation(rows: Rows) -> str:
    head = ("", "R2, last layer", "R2 of cls", "recovered", "seconds of training")
    return _table(
        head,
        (
            [row["row"], "as above" if row["row"] == TUNED else _spread(row["r2_by_seed"]),
             "as above" if row["row"] == TUNED else _spread(row["r2_cls_by_seed"]),
             _spread(row["recovered_by_seed"], _percent), _spread(row["train_seconds_by_seed"], "{:.0f}".format)]
            for row in rows
        ),
    )  # fmt: skip


def _k_curve(rows: Rows) -> str:
    head = ("width", "k", "phases", "R2, last layer", "recovered", "parameters of blocks", "useful k", "suggested k")
    return _table(
        head,
        (
            [str(row["width"]), str(row["k"]), row["phases"], f"{row['r2']:.3f}", _percent(row["recovered"]),
             f"{row['parameters']:,}", str(row["useful_k"]), str(row["suggested_k"])]
            for row in rows
        ),
    )  # fmt: skip


def _gallery(rows: Rows) -> str:
    head = ("teacher", "top-1", "structure", "three phases", "suggested k", "cosine within", "between")
    return _table(
        head,
        (
            [row["model"], "" if row["top1"] is None else _percent(row["top1"]), row["verdict"], row["phases"],
             str(row["suggested_k"]), f"{row['within']:.3f}", f"{row['between']:.3f}"]
            for row in rows
        ),
    )  # fmt: skip


SEVERAL = ("stochastic-depth", "partitions", "ablation")  # studies with students of several seeds
ALL_WIDTHS = ("k-curve", "gallery")
# What differs from study to study beside its rows.
ALSO = {
    "stochastic-depth": "one teacher a rate, so that seeds are those of students",
    "partitions": "a teacher without stochastic depth",
    "emergence": "a teacher without stochastic depth, where the paper's has a rate of .3",
    "ablation": "a teacher without stochastic depth; up to the teacher's blocks all rows have the paper's recipe with "
    "a learning rate of 1e-3, and `released` has that rate too",
    "k-curve": "phases may have a single layer",
    "gallery": "a teacher that was not trained is among them",
}
TABLES = {
    "stochastic-depth": _stochastic_depth,
    "partitions": _partitions,
    "emergence": _emergence,
    "ablation": _ablation,
    "k-curve": _k_curve,
    "gallery": _gallery,
}


def _study(name: str) -> str:
    folder = KEPT / name
    if not (folder / "result.json").exists():
        return f"## {TITLES[name]}\n\n**The paper.** {PAPER[name]}\n\n**Here.** Not run at this size yet.\n"
    found = json.loads((folder / "result.json").read_text())
    size, claim, jobs = found["size"], found["claim"], found["jobs"]
    taken = sum(job["seconds"] for job in jobs if job["seconds"] is not None)
    failed = [job["job"] for job in jobs if job["failed"] is not None]
    seeds = f"seeds {', '.join(map(str, size['seeds']))}" if name in SEVERAL else "seed 0"
    widths = " and ".join(map(str, size["widths"] if name in ALL_WIDTHS else [size["width"]]))
    students = f"{size['student_steps']} + {size['student_steps']} steps of {size['student_batch']}"
    return "\n".join(
        (
            f"## {TITLES[name]}\n",
            f"**The paper.** {PAPER[name]}\n",
            f'**Here** "{claim["text"]}" {HELD[claim["held"]]}: {claim["evidence"]}.\n',
            TABLES[name](found["summary"]),
            f"![{TITLES[name]}](results/{name}/{name}.svg)\n",
            f"`raptor study {name} --data {found['data']} --out runs/studies`: {size['depth']}-layer ViTs of width "
            f"{widths}, {size['teacher_steps']:,} steps of {size['teacher_batch']} images; "
            f"{'no Raptors' if name == 'gallery' else f'Raptors of {students}'}; {ALSO[name]}; n = "
            f"{found['images']:,} held-out images, {seeds}; {len(jobs)} jobs of "
            f"{taken:,.0f} s together on one core with other work beside it, with teachers that studies share, without "
            "students that another had trained"
            f"{'' if not failed else '; failed: ' + ', '.join(failed)}.\n",
        )
    )


def _result(name: str) -> dict[str, Any] | None:
    file = KEPT / name / "result.json"
    return json.loads(file.read_text()) if file.exists() else None


def _command(name: str) -> str:
    command = "raptor " + " ".join(json.loads((KEPT / name / "config.json").read_text())["command"])
    return " \\\n    ".join(textwrap.wrap(command, 116, break_long_words=False, break_on_hyphens=False))


def _surrogate(name: str) -> list[str]:
    """Return a row on a Raptor of the teacher below."""
    found = _result(name)
    assert found is not None
    own, (first, second) = found["fidelity"], found["steps"]
    low, high = own["recovered_ci"]
    r2 = own["r2"]["all"]
    return [
        str(found["phases"].count("-") + 1), found["phases"], f"{first} + {second}", _percent(own["surrogate_top1"]),
        f"{_percent(own['recovered'])} [{100 * low:.1f}, {100 * high:.1f}]", _percent(own["recovered_above_chance"]),
        f"{r2[0]:.3f}, {r2[-1]:.3f}", f"{found['train_seconds']:,.0f}",
    ]  # fmt: skip


def _teacher() -> str:
    """Return the section on the best teacher and its Raptors."""
    teacher = _result("cifar-teacher")
    assert teacher is not None
    low, high = teacher["top1_ci"]
    depth = _result("cifar-phases")
    assert depth is not None
    left = {name: depth["structure"][name] for name in ("blocks", "paced_drift")}
    made = [name for name in ("cifar-k2", "cifar-k2-long", "cifar-k3", "cifar-k3-long") if _result(name) is not None]
    head = ("k", "phases", "steps of 64 images", "top-1", "recovered", "above chance", "R2 at layer 1, 12", "seconds")
    return "\n".join(
        (
            "## A ViT of CIFAR-100, and Raptors of it\n",
            "**The paper.** Raptors of DINOv2-B recover 94.4% (k = 2) and 97.0% (k = 3) of its top-1 on ImageNet, "
            "after probes were fitted to them. Its ViT of CIFAR-100 has 90.7%, said to be from random weights.\n",
            f"**Here.** A 12-layer ViT of {teacher['parameters']:,} parameters and 17 tokens, from random weights in "
            f"{teacher['epochs']:.1f} epochs: top-1 {_percent(teacher['top1'])} [{100 * low:.1f}, {100 * high:.1f}], "
            f"n = {teacher['images']:,}, seed {teacher['seed']}, {teacher['train_seconds']:,.0f} s of training on one "
            f"core with other work beside it. Its depth is of the kind {depth['verdict']}: on held-out images four "
            f"blocks of layers leave an error of {left['blocks']['4']['held_out']:.3f} in its similarity, uneven pace "
            f"{left['paced_drift']['held_out']:.3f} (n = {depth['images']:,}); useful k {depth['useful_k']}, suggested "
            f"{depth['suggested_k']}. Its classifier is untouched in what follows; intervals are over the same "
            "images, one seed:\n",
            _table(head, map(_surrogate, made)),
            "```\n" + "\n".join(map(_command, ("cifar-teacher", "cifar-phases", *made))) + "\n```\n",
        )
    )


def _recipes() -> str:
    """Return the section on our recipe and the released one: at equal steps, and what that means at equal seconds."""
    found = _result("ablation")
    timed = [json.loads(line) for line in (DOCS / "data" / "cifar_step_seconds.jsonl").read_text().splitlines()]
    assert found is not None
    size, step = found["size"], {one["recipe"]: one["stage1"] + one["stage2"] for one in timed}
    rows = [row for row in found["summary"] if row["row"] in step]
    ratio = step["default"] / step["released"]
    share = "has had fewer" if ratio < 1 else "has had more"
    return "\n".join(
        (
            "## Our recipe and the released one\n",
            f"The rows `default` and `released` of the ablation, {size['student_steps']} + {size['student_steps']} "
            f"steps of {size['student_batch']} images and three seeds each, with what a step of both stages takes on "
            f"one core (medians of {timed[0]['rounds']} alternating rounds, `tools/time_steps.py`). The released "
            "recipe has a learning rate of 1e-3 here, the best of three on scenes ([surrogates](surrogates.md)).\n",
            _table(
                ("recipe", "R2, last layer", "R2 of cls", "recovered", "seconds of a step, both stages"),
                (
                    [row["row"], _spread(row["r2_by_seed"]), _spread(row["r2_cls_by_seed"]),
                     _spread(row["recovered_by_seed"], _percent), f"{step[row['row']]:.3f}"]
                    for row in rows
                ),
            ),
            f"As many steps of `default` take {ratio:.2f} of the seconds: at equal seconds `released` {share} steps "
            "than in this table.\n",
        )
    )  # fmt: skip


def page() -> str:
    """Return the page as the kept files are now."""
    return "\n".join((HEAD, _teacher(), *(_study(name) for name in TABLES), _recipes()))


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page())
