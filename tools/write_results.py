"""Write docs/results.md from the result files in docs/results. No number on that page is typed by hand.

    python tools/write_results.py

`tests/docs/test_results_page.py` checks that the page matches the files.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from raptor.render.tables import HELD
from raptor.studies.experiments.ablation import TUNED

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "results"
Rows = list[dict[str, Any]]

HEAD = """# Results of the studies

This page reports the results of the small-scale studies on CIFAR-100, with the paper's numbers for comparison.

`python tools/write_results.py` generates this page from the files in `docs/results`: results, figures and jobs as the
commands wrote them, without the paths of the images. All runs use CIFAR-100 (50,000 training images of 32x32 pixels;
all measurements use held-out images) on one or two cores without a GPU. These are small models. The paper's numbers are
for ViT-B, so the model size may explain a difference. Result files and figures say `paced drift` for what this page
calls a non-uniform drift, and `joined stage` for the end-to-end stage.

**The studies on this page come from an earlier design**: width 128, 1,500 training steps, one teacher per condition,
random partitions drawn by another rule than the found ones, R2 without an identity baseline, and verdicts by rules set
by hand. They are kept until the runs of the present design ([studies](studies.md)) replace them. Where that design
answers the same question with controls, its answer counts.
"""

# The paper's results in our words, with its published numbers.
PAPER = {
    "stochastic-depth": "Figure 4: with a higher stochastic depth rate, layers become more similar and Raptors closer "
    "to their teachers, while accuracy peaks at a middle rate. Similarity predicts the fidelity of a Raptor. A summary "
    "gives an R2 of about .88 at rate 0 and about .94 at .6. A later version says that rates of .7 to .9 train badly.",
    "partitions": "Figure 3: Raptors with the found partitions are near or above one standard deviation over ten "
    "random partitions.",
    "emergence": "Figure 11: training (with a stochastic depth rate of .3) increases the similarity within phases and "
    "improves the reconstruction of cls. A Raptor also reconstructs a ViT with random weights.",
    "ablation": "Table 2, k = 3, ImageNet top-1: teacher forcing alone 1.2, + autoregressive 62.1, + depth scaling "
    "63.3, + weighted cls 67.9, + end-to-end stage 81.2, + probe fine-tuning 82.1 (a later version: 3.9, 72.7, 75.2, "
    "76.7, 82.4, 83.0).",
    "k-curve": "Table 1 and Figure 5: k = 2, 3, 4 recover 94.4, 97.0, 97.3% of DINOv2-B's top-1 (a later version: "
    "96.1, 98.2, 98.5%). Most of the gain is from 2 to 3.",
    "controls": "The paper has no such controls.",
    "overfitting": "Figure 13 of the later version: overfitting degrades blocks and R2 together.",
    "gallery": "Figure 1: all models shown have contiguous blocks of similar layers.",
}
TITLES = {
    "stochastic-depth": "Stochastic depth",
    "partitions": "Found partitions and others",
    "emergence": "Emergence during training",
    "ablation": "What each part of the recipe adds",
    "k-curve": "Number of blocks",
    "gallery": "Several teachers",
}
# Words in the result files, and how the page shows them.
SHOWN = {
    "paced drift": "non-uniform drift",
    "joined stage": "end-to-end stage",
    "other cuts": "other partitions",
    "more alike": "more similar",
    "the similarity tells how many": "similarity predicts how many",
    "a block more adds": "one more block adds",
    "what the rate does and what learning less does is not told apart": "the effects of the rate and of lower accuracy "
    "cannot be separated",
}


def _shown(text: str) -> str:
    """Return a text of a result file in the words of the documentation."""
    for stored, shown in SHOWN.items():
        text = text.replace(stored, shown)
    return text


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _spread(values: list[float], form: Callable[[float], str] = "{:.3f}".format) -> str:
    """Return the mean, with the range if there are several values."""
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
            f"{_shown(first['verdict'])}, {first['phases']}",
        ]  # fmt: skip

    head = ("rate", "teacher top-1", "Raptor top-1, k = 3", "recovered", "R2, last layer", "pearson2, cls",
            "pearson2, patches", "cosine within phases", "structure")  # fmt: skip
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

    head = ("k", "found", "R2 over seeds", "recovered", "others", "R2 of others", "recovered", "best of others")
    return _table(head, (line(k) for k in sorted({row["k"] for row in rows})))


def _emergence(rows: Rows) -> str:
    head = ("share of training", "top-1", "cosine within phases", "between", "R2, last layer", "R2, cls", "structure")
    return _table(
        head,
        (
            [f"{row['share']:.0%}", _percent(row["top1"]), f"{row['within']:.3f}", f"{row['between']:.3f}",
             f"{row['r2']:.3f}", f"{row['r2_cls']:.3f}", f"{_shown(row['verdict'])}, {row['phases']}"]
            for row in rows
        ),
    )  # fmt: skip


def _ablation(rows: Rows) -> str:
    head = ("", "R2, last layer", "R2, cls", "recovered", "training seconds")
    return _table(
        head,
        (
            [_shown(row["row"]), "as above" if row["row"] == TUNED else _spread(row["r2_by_seed"]),
             "as above" if row["row"] == TUNED else _spread(row["r2_cls_by_seed"]),
             _spread(row["recovered_by_seed"], _percent), _spread(row["train_seconds_by_seed"], "{:.0f}".format)]
            for row in rows
        ),
    )  # fmt: skip


def _k_curve(rows: Rows) -> str:
    head = ("width", "k", "phases", "R2, last layer", "recovered", "block parameters", "useful k", "suggested k")
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
            [row["model"], "" if row["top1"] is None else _percent(row["top1"]), _shown(row["verdict"]), row["phases"],
             str(row["suggested_k"]), f"{row['within']:.3f}", f"{row['between']:.3f}"]
            for row in rows
        ),
    )  # fmt: skip


SEVERAL = ("stochastic-depth", "partitions", "ablation")  # studies with students of several seeds
ALL_WIDTHS = ("k-curve", "gallery")
# What differs between studies apart from the rows.
ALSO = {
    "stochastic-depth": "one teacher per rate, so seeds vary only the students",
    "partitions": "a teacher without stochastic depth",
    "emergence": "a teacher without stochastic depth (the paper's teacher has a rate of .3)",
    "ablation": "a teacher without stochastic depth; all rows up to \"teacher's blocks\" use the paper's recipe with "
    "a learning rate of 1e-3, and `released` uses that rate too",
    "k-curve": "phases may have a single layer",
    "gallery": "one of the teachers is untrained",
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
        return f"## {TITLES[name]}\n\n**The paper.** {PAPER[name]}\n\n**raptor.** Not run at this size yet.\n"
    found = json.loads((folder / "result.json").read_text())
    size, claim, jobs = found["size"], found["claim"], found["jobs"]
    verdict = HELD[claim["held"]] if claim["held"] is not None else f"is {HELD[None]}"
    taken = sum(job["seconds"] for job in jobs if job["seconds"] is not None)
    failed = [job["job"] for job in jobs if job["failed"] is not None]
    seeds = f"seeds {', '.join(map(str, size['seeds']))}" if name in SEVERAL else "seed 0"
    widths = " and ".join(map(str, size["widths"] if name in ALL_WIDTHS else [size["width"]]))
    students = f"{size['student_steps']} + {size['student_steps']} steps of {size['student_batch']}"
    return "\n".join(
        (
            f"## {TITLES[name]}\n",
            f"**The paper.** {PAPER[name]}\n",
            f'**raptor.** The claim "{_shown(claim["text"])}" {verdict}: {_shown(claim["evidence"])}.\n',
            TABLES[name](found["summary"]),
            f"![{TITLES[name]}](results/{name}/{name}.svg)\n",
            f"`raptor study {name} --data {found['data']} --out runs/studies`: {size['depth']}-layer ViTs of width "
            f"{widths}, {size['teacher_steps']:,} steps of {size['teacher_batch']} images; "
            f"{'no Raptors' if name == 'gallery' else f'Raptors of {students}'}; {ALSO[name]}; n = "
            f"{found['images']:,} held-out images, {seeds}. {len(jobs)} jobs took {taken:,.0f} s in total on one core, "
            "shared with other work. This includes the teachers that studies share, but not the students that another "
            f"study had trained{'' if not failed else '. Failed jobs: ' + ', '.join(failed)}.\n",
        )
    )


def _result(name: str) -> dict[str, Any] | None:
    file = KEPT / name / "result.json"
    return json.loads(file.read_text()) if file.exists() else None


def _command(name: str) -> str:
    command = "raptor " + " ".join(json.loads((KEPT / name / "config.json").read_text())["command"])
    return " \\\n    ".join(textwrap.wrap(command, 116, break_long_words=False, break_on_hyphens=False))


def _surrogate(name: str) -> list[str]:
    """Return the row of one Raptor of the CIFAR-100 teacher."""
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
    """Return the section on the CIFAR-100 teacher and its Raptors."""
    teacher = _result("cifar-teacher")
    assert teacher is not None
    low, high = teacher["top1_ci"]
    depth = _result("cifar-phases")
    assert depth is not None
    left = {name: depth["structure"][name] for name in ("blocks", "paced_drift")}
    made = [name for name in ("cifar-k2", "cifar-k2-long", "cifar-k3", "cifar-k3-long") if _result(name) is not None]
    head = ("k", "phases", "steps of 64 images", "top-1", "recovered", "above chance", "R2 at layers 1, 12", "seconds")
    return "\n".join(
        (
            "## A CIFAR-100 ViT and its Raptors\n",
            "**The paper.** Raptors of DINOv2-B recover 94.4% (k = 2) and 97.0% (k = 3) of its top-1 on ImageNet, "
            "with fitted probes. Its CIFAR-100 ViT has 90.7%, reported as trained from random weights.\n",
            f"**raptor.** A 12-layer ViT with {teacher['parameters']:,} parameters and 17 tokens, trained from random "
            f"weights for {teacher['epochs']:.1f} epochs: top-1 {_percent(teacher['top1'])} [{100 * low:.1f}, "
            f"{100 * high:.1f}], n = {teacher['images']:,}, seed {teacher['seed']}, {teacher['train_seconds']:,.0f} s "
            f"of training on one core, shared with other work. raptor classifies its structure as "
            f"{_shown(depth['verdict'])}: on held-out images, four blocks leave an error of "
            f"{left['blocks']['4']['held_out']:.3f} in the similarity and a non-uniform drift leaves "
            f"{left['paced_drift']['held_out']:.3f} (n = {depth['images']:,}). The useful k is {depth['useful_k']} (by "
            "an earlier rule, which chose the largest k that is worth adding instead of the elbow), "
            f"the suggested k is {depth['suggested_k']}. The table uses the teacher's classifier unchanged, "
            "intervals over the same images, and one seed:\n",
            _table(head, map(_surrogate, made)),
            "```\n" + "\n".join(map(_command, ("cifar-teacher", "cifar-phases", *made))) + "\n```\n",
        )
    )


def _recipes() -> str:
    """Return the section that compares our recipe with the released one at equal steps and at equal seconds."""
    found = _result("ablation")
    timed = [json.loads(line) for line in (DOCS / "data" / "cifar_step_seconds.jsonl").read_text().splitlines()]
    assert found is not None
    size, step = found["size"], {one["recipe"]: one["stage1"] + one["stage2"] for one in timed}
    rows = [row for row in found["summary"] if row["row"] in step]
    ratio = step["default"] / step["released"]
    share = "fewer" if ratio < 1 else "more"
    return "\n".join(
        (
            "## The default and the released recipe\n",
            f"The table shows the rows `default` and `released` of the ablation, with {size['student_steps']} + "
            f"{size['student_steps']} steps of {size['student_batch']} images and three seeds each. The last column "
            f"is the time of one step of each stage, added up, on one core (medians of {timed[0]['rounds']} "
            "alternating rounds, `tools/time_steps.py`). The released recipe uses a learning rate of 1e-3 here, the "
            "best of three on scenes ([surrogates](surrogates.md)).\n",
            _table(
                ("recipe", "R2, last layer", "R2, cls", "recovered", "seconds per step, both stages"),
                (
                    [row["row"], _spread(row["r2_by_seed"]), _spread(row["r2_cls_by_seed"]),
                     _spread(row["recovered_by_seed"], _percent), f"{step[row['row']]:.3f}"]
                    for row in rows
                ),
            ),
            f"The same number of steps takes {ratio:.2f} of the time with `default`. At equal time, `released` would "
            f"therefore have {share} steps than in this table.\n",
        )
    )  # fmt: skip


def page() -> str:
    """Return the page for the current result files."""
    return "\n".join((HEAD, _teacher(), *(_study(name) for name in TABLES), _recipes()))


if __name__ == "__main__":
    (DOCS / "results.md").write_text(page())
