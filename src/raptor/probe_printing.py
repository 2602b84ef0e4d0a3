"""What the verbs about probes print for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from raptor.formatting import number
from raptor.printing import print_damaged, print_files


def print_probe(console: Console, result: dict[str, Any], out: Path | None) -> None:
    for task, body in result.get("tasks", {result["task"]: result}).items():
        n = body["images_by_split"]
        metrics = [name for name in body["heads"]["constant"] if f"{name}_ci" in body]
        table = Table(
            "head", *metrics, title=f"{task}, layer {result['layer']}: n = {n['report']:,} images [95% interval]"
        )
        for name, column in body["heads"].items():
            cells = []
            for metric in metrics:
                low, high = (number(end) for end in column[f"{metric}_ci"])
                cells.append(f"{number(column[metric])} \\[{low}, {high}]")
            table.add_row(name, *cells)
        console.print(table)
        console.print(
            f"learning rate {body['rate']:g}, selected on {n['select']:,} other images; {body['steps']} steps of "
            f"{body['batch_size']} on {n['train']:,}; means over {len(body[f'{metrics[0]}_by_seed'])} seeds"
        )
        for note in body["notes"]:
            console.print(f"note: {escape(note)}")
    print_damaged(console, result["damaged"])
    print_files(console, out)


def print_table1(console: Console, result: dict[str, Any], out: Path | None) -> None:
    title = f"linear probes, n = {result['images']:,} images: value (share of the teacher's \\[95% interval])"
    table = Table("model", "top-1", "mIoU", "RMSE", "R2", title=title)
    for row in result["rows"]:
        cells = [_with_share(row, metric) for metric in ("top1", "miou", "rmse")]
        table.add_row(escape(row["row"]), *cells, "" if row["r2"] is None else number(row["r2"]))
    console.print(table)
    quoted = Table("published, of DINOv2 ViT-B", "ImageNet top-1", "ADE20k mIoU", "NYUv2 RMSE")
    for row in result["published"]:
        cells = [_with_spread(row, metric) for metric in ("top1", "miou", "rmse")]
        quoted.add_row(row["row"] + (", later version" if "later" in row["source"] else ""), *cells)
    console.print(quoted)
    for note in result["notes"]:
        console.print(f"note: {escape(note)}")
    print_files(console, out, result["figures"])


def _with_share(row: dict[str, Any], metric: str) -> str:
    if row[metric] is None:
        return ""
    share = row["recovered"].get(metric)
    if share is None:
        return number(row[metric])
    low, high = (number(end, ".1%") for end in share["ci"])
    return f"{number(row[metric])} ({number(share['value'], '.1%')} \\[{low}, {high}])"


def _with_spread(row: dict[str, Any], metric: str) -> str:
    spread = f" ± {row[f'{metric}_spread']}" if f"{metric}_spread" in row else ""
    return f"{row[metric]}{spread}" if metric in row else ""
