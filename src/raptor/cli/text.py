"""What `raptor doctor` and `raptor bench` show."""

from __future__ import annotations

from collections.abc import Iterator

from raptor.benchmarks.run import BenchResult
from raptor.cli.doctor import DoctorResult
from raptor.render.tables import Part, Table, file_lines
from raptor.runtime.rundir import Record

WORTHWHILE = 1.5  # speed of bfloat16 products from which training in that precision pays


def show_doctor(record: Record[DoctorResult]) -> Iterator[Part]:
    """Yield a table of versions and devices, and whether the device agrees with the CPU."""
    result = record.result
    rows = [(name, version or "not installed") for name, version in result.versions.items()]
    rows += [
        ("device", result.device),
        ("devices", ", ".join(result.devices)),
        ("cores", str(result.cores)),
        ("threads", str(result.threads)),
        ("speed of bfloat16 products", f"{result.bf16_speed:.1f} times that of single precision"),
        ("largest difference", str(result.max_difference)),
    ]
    yield Table("raptor doctor", (), tuple(rows))
    compared = tuple(
        (name, f"{check.difference:.1e}", f"{check.tolerance:.0e}", "ok" if check.ok else "DIFFERS")
        for name, check in result.checks.items()
    )
    yield Table(f"{result.device} compared with the CPU", ("work", "difference", "tolerance", ""), compared)
    if result.bf16_speed >= WORTHWHILE:
        yield "raptor distill --precision bf16 is faster on this device"
    yield f"{result.device} {'agrees with' if result.ok else 'DIFFERS FROM'} the CPU"
    yield from file_lines(record)


def show_bench(record: Record[BenchResult]) -> Iterator[Part]:
    """Yield a table of all ratios and their limits."""
    rows = tuple(
        (name, f"{one.ratio:.3f}", f"{one.limit:.3g}", "ok" if one.ok else "EXCEEDED")
        for name, one in record.result.ratios.items()
    )
    yield Table("Benchmarks: raptor divided by its baseline", ("benchmark", "ratio", "limit", ""), rows)
    yield from file_lines(record)
