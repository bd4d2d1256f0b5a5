"""What makes an unsolved lecture short: few training steps, small figures at the ends of their sliders, claims not asserted.

The solved lectures train in full and assert every claim; of the unsolved ones the suite asks that each cell runs. `train`
does its first steps and then repeats the last one, so that code which averages a known number of losses still works; `batches`
end early, for loops that a lecture writes out; build tasks and their rivals get few updates.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import islice

from course_lib.datasets import Splits
from course_tools.notebook.answer_lookup import NamedAnswer

N_STEPS = 5
n_characters: int
"""How much text is read after training; tests/test_lectures.py sets it before each lecture."""


def quicken() -> None:
    """Replace what takes long in every module of this process; called once, before the first cell of the first lecture."""
    training, loops = import_module("course_lib.training"), import_module("course_tools.bank.training_loops")
    texts = import_module("course_lib.datasets.language_reference")
    import_module("course_tools.notebook.show").DPI = 50
    claims, checks, frames = (import_module(f"course_tools.notebook.{name}") for name in ("claim", "check", "frames"))
    quick = {
        "train": (training.train, _few_steps(training.train)),
        "batches": (training.batches, _few_batches(training.batches)),
        "language_reference": (texts.language_reference, _little_new(texts.language_reference)),
        "updates": (loops.updates, _at_most("n_updates", loops.updates)),
        "check": (checks.check, _with_few_steps(checks.check)),
        "claim": (claims.claim, _only_stated(claims.claim, claims.ClaimFailed)),
        "recorded_frames": (frames.recorded_frames, _at_the_ends),
    }
    for module in [module for name, module in sys.modules.items() if name.startswith(("course_lib", "course_tools"))]:
        for name, (old, new) in quick.items():
            if vars(module).get(name) is old:
                setattr(module, name, new)


def _few_steps(train: Callable[..., Iterator]) -> Callable[..., Iterator]:
    @functools.wraps(train)
    def few_steps(*args: object, steps: int, **settings: object) -> Iterator:
        for step in islice(train(*args, steps=steps, **settings), min(steps, N_STEPS)):
            yield step
        for index in range(N_STEPS, steps):
            yield replace(step, index=index)

    return few_steps


def _few_batches(batches: Callable[..., Iterator]) -> Callable[..., Iterator]:
    return functools.wraps(batches)(lambda *args, **settings: islice(batches(*args, **settings), 4 * N_STEPS))


def _little_new(language_reference: Callable[..., Splits]) -> Callable[..., Splits]:
    @functools.wraps(language_reference)
    def shorter(*args: object, **settings: object) -> Splits:
        text = language_reference(*args, **settings)
        return replace(text, test=text.test[:n_characters])

    return shorter


def _at_most(name: str, function: Callable[..., object]) -> Callable[..., object]:
    """Limit the argument of this name, if the function has one."""
    signature = inspect.signature(function)
    if name not in signature.parameters:
        return function

    @functools.wraps(function)
    def limited(*args: object, **settings: object) -> object:
        given = signature.bind(*args, **settings)
        given.arguments[name] = min(given.arguments[name], N_STEPS)
        return function(*given.args, **given.kwargs)

    return limited


def _with_few_steps(check: Callable[..., Callable]) -> Callable[..., Callable]:
    """Judge a function that makes few updates, if it trains, and go on with one that does."""

    @functools.wraps(check)
    def checked(id: str, answer: object, **settings: object) -> Callable:
        if isinstance(answer, NamedAnswer) and answer.name == "suspect":
            answer.value = _at_most("n_steps", answer.value)
        mine = check(id, answer, **settings)
        return _at_most("n_updates" if "n_updates" in inspect.signature(mine).parameters else "n_steps", mine)

    return checked


def _only_stated(claim: Callable[..., None], failed: type[Exception]) -> Callable[..., None]:
    @functools.wraps(claim)
    def stated(*args: object, **settings: object) -> None:
        try:
            claim(*args, **settings)
        except failed as failure:
            print(f"{failure} (after {N_STEPS} steps)", file=sys.stderr)

    return stated


def _at_the_ends(draw: Callable[..., None], positions: Mapping[str, Sequence], start: Mapping[str, object]) -> str:
    """Draw at both ends of each control, in place of at a grid of positions; show nothing."""
    from course_tools.notebook.show import caught

    for name, values in positions.items():
        for value in (values[0], values[-1]):
            with caught([]):
                draw(**{**start, name: value})
    return ""
