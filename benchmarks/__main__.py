"""Time everything and print one table: `python -m benchmarks [room …] [--rounds 15]`; `language` is a room."""

import argparse
import platform

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
from benchmarks.timing import table

ROOMS = {
    "recurrent": recurrent.rows,
    "seq2seq": seq2seq.rows,
    "multihead": multihead.rows,
    "linear": linear.rows,
    "language": language.rows,
    "graph": graph.rows,
    "pixels": pixels.rows,
    "patches": patches.rows,
    "detection": detection.rows,
    "self_supervision": self_supervision.rows,
}

TABLES = {"grading": grading.table}
"""Rooms with a table of their own."""


def main() -> None:
    """Run the rooms named on the command line, all of them if none is, on one thread."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="room", help=f"of {', '.join((*ROOMS, *TABLES))}; all if none is named")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of each pair (default 15)")
    arguments = parser.parse_args()
    if unknown := [room for room in arguments.rooms if room not in (*ROOMS, *TABLES)]:
        parser.error(f"no room {unknown[0]!r}: choose from {', '.join((*ROOMS, *TABLES))}.")
    if arguments.rounds < 1:
        parser.error("at least one round is needed.")
    torch.set_num_threads(1)
    rooms = arguments.rooms or [*ROOMS, *TABLES]
    rows = [row for room in rooms if room in ROOMS for row in ROOMS[room](arguments.rounds)]
    print(f"torch {torch.__version__}, {platform.machine()}, one thread, processor time, medians of {arguments.rounds} rounds;")
    print("ratio = peer / ours, above 1 ours is faster.\n")
    print("\n\n".join([*([table(rows)] if rows else []), *(TABLES[room]() for room in rooms if room in TABLES)]))


if __name__ == "__main__":
    main()
