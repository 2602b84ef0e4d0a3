"""Run every benchmark; exit 1 where a limit is missed."""

from __future__ import annotations

import sys

from benchmarks.rollout import rollout_against_forward

BENCHMARKS = [rollout_against_forward]


def main() -> None:
    """Print one line a comparison."""
    results = []
    for benchmark in BENCHMARKS:
        results.append(benchmark())
        print(results[-1], flush=True)
    sys.exit(not all(result.ok for result in results))


if __name__ == "__main__":
    main()
