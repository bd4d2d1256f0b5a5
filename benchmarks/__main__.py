"""Time the mechanisms against their peers: `python -m benchmarks [group …] [--rounds 15] [--record]`."""

import argparse

import torch

from benchmarks import (
    detection,
    grading,
    graph,
    language,
    linear,
    multihead,
    patches,
    pixels,
    recurrent,
    self_supervision,
    seq2seq,
)
from benchmarks.report import machine, record, streamed

GROUPS = {
    "recurrent": recurrent.rows,
    "seq2seq": seq2seq.rows,
    "multihead": multihead.rows,
    "linear": linear.rows,
    "linear_long": linear.long_rows,
    "linear_lean": linear.lean_rows,
    "language": language.rows,
    "graph": graph.rows,
    "pixels": pixels.rows,
    "patches": patches.rows,
    "detection": detection.rows,
    "self_supervision": self_supervision.rows,
}

TABLES = {"grading": grading.table}
"""Groups, each with its own table."""

NOTES = {
    "linear": linear.NOTE,
    "linear_lean": linear.LEAN_NOTE,
    "language": language.NOTE,
    "multihead": multihead.NOTE,
    "graph": graph.NOTE,
    "pixels": pixels.NOTE,
    "self_supervision": self_supervision.NOTE,
}
"""Notes below a table: where a ratio is low, and why."""


def main(arguments: list[str] | None = None) -> None:
    """Run the groups named on the command line, or all, on one thread; print each row as it is measured."""
    every = (*GROUPS, *TABLES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="group", help=f"of {', '.join(every)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of each pair, fewer of slow ones (default 15)")
    parser.add_argument("--record", action="store_true", help="write the groups into docs/performance.md")
    asked = parser.parse_args(arguments)
    if unknown := [group for group in asked.groups if group not in every]:
        parser.error(f"no group {unknown[0]!r}: choose from {', '.join(every)}.")
    if asked.rounds < 1:
        parser.error("at least one round is needed.")
    torch.set_num_threads(1)
    print(f"{machine(asked.rounds)}\nratio = peer / ours, above 1 ours is faster.")
    for group in asked.groups or every:
        print(f"\n## {group}")
        lines = []
        for text in streamed(GROUPS[group](asked.rounds)) if group in GROUPS else TABLES[group]().splitlines():
            print(text, flush=True)
            lines.append(text)
        if asked.record:
            record(group, "\n".join(lines), machine(asked.rounds), NOTES.get(group, ""))


if __name__ == "__main__":
    main()
