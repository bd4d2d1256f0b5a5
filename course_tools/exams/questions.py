"""Questions of an exam, made from the exercises of the bank.

diagnose: a wrong answer without its name and docstring; which of four mistakes does it make? The other three are mistakes
of the same exercise. Each violates a property that the answer shown satisfies, so that none of them applies to it.
predict:  the inputs are small integers; what does the right function return? The other three are results of wrong answers.
shape:    the shapes of the inputs are given; what is the shape of the result?
repair:   a wrong answer and the property that it violates; write the corrected line.
"""

import ast
import contextlib
import difflib
import inspect
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_tools.checks.exercise import Answer, Exercise, Property
from course_tools.checks.judge_answer import Examination
from course_tools.checks.outcome import Call
from course_tools.checks.time_limit import guarded
from course_tools.exams.printed_code import Footnote, Unprintable, footnotes, printed

KINDS = ("diagnose", "predict", "shape", "repair")
MINUTES = {"diagnose": 3, "predict": 3, "shape": 2, "repair": 6}
"""Minutes planned for a question of each kind; it is worth as many points."""


@dataclass(frozen=True)
class AnswerOption:
    """One option of a multiple-choice question, and why it is right or wrong."""

    text: str
    why: str
    is_code: bool = False


@dataclass(frozen=True)
class Question:
    """One question. There are four `options`, the right one first, or none if the answer is written.

    `answer` is the key's version of a written answer. `difficulty` is the estimate used to balance the forms: it increases with
    the lines to read, and is higher for a mistake that violates fewer properties.
    """

    kind: str
    exercise: str
    source: str
    text: str
    code: str
    footnotes: tuple[Footnote, ...]
    options: tuple[AnswerOption, ...]
    answer: str
    difficulty: float

    @property
    def points(self) -> int:
        """The points, equal to the minutes."""
        return MINUTES[self.kind]


Statuses = dict[str, str]
"""The outcome of each property: "holds", "fails" or "skipped"."""


def statuses(exercise: Exercise) -> dict[Answer, Statuses]:
    """Judge every wrong answer of an exercise once; those that crash or fail only by a forbidden call are left out."""
    if exercise.id not in _JUDGED:
        _JUDGED[exercise.id] = _judged(exercise)
    return _JUDGED[exercise.id]


_JUDGED: dict[str, dict[Answer, Statuses]] = {}


def _judged(exercise: Exercise) -> dict[Answer, Statuses]:
    examination, found = Examination(exercise, seed=0), {}
    for answer in exercise.wrong:
        verdict = examination.examine(answer)
        runs = verdict.findings[0].status == "holds"
        if runs and any(f.status == "fails" and f.name != "by hand" for f in verdict.findings):
            found[answer] = {f.name: f.status for f in verdict.findings}
    return found


def diagnosis_questions(exercise: Exercise, draw: random.Random) -> Iterator[Question]:
    """Make a question from every wrong answer for which three other mistakes can be ruled out."""
    judged = statuses(exercise)
    for answer, own in judged.items():
        others = {other: kept for other, theirs in judged.items() if other is not answer and (kept := _kept(own, theirs))}
        mistakes = {mistake(other): kept for other, kept in others.items() if mistake(other) != mistake(answer)}
        shown = _shown(exercise, answer)
        if shown is None or len(mistakes) < 3:
            continue
        right = AnswerOption(mistake(answer), f"It violates “{_law(exercise, _broken(own))}”")
        wrong = [
            AnswerOption(text, f"It would violate “{_law(exercise, mistakes[text])}”, which holds here.")
            for text in draw.sample(sorted(mistakes), 3)
        ]
        n_fails = sum(status == "fails" for status in own.values())
        yield Question(
            "diagnose",
            exercise.id,
            answer.__name__,
            f"{_what(exercise)} A student submitted the code below. What is the mistake?",
            *shown,
            (right, *wrong),
            "",
            _difficulty(*shown, 1 / n_fails),
        )


def repair_questions(exercise: Exercise, draw: random.Random) -> Iterator[Question]:
    """Ask for the correction of a wrong answer, given the property that it violates; the key shows the nearest right answer."""
    for answer, own in statuses(exercise).items():
        shown, right = _shown(exercise, answer), _nearest_right(exercise, answer)
        if shown is None or right is None or not 2 < shown[0].count("\n") < 10:
            continue
        broken = _law(exercise, _broken(own))
        yield Question(
            "repair",
            exercise.id,
            answer.__name__,
            f"{_what(exercise)} The code below is wrong. This property does not hold: “{broken}” "
            "Mark the cause in the code, and write down the correction.",
            *shown,
            (),
            f"{_one_line(answer)}\n\n{right}",
            _difficulty(*shown, 1 / sum(status == "fails" for status in own.values())),
        )


def shape_questions(exercise: Exercise, draw: random.Random) -> Iterator[Question]:
    """Ask for the shape of a result, for a few draws of the sizes."""
    prop = next((prop for prop in exercise.properties if prop.name == "shape"), None)
    for number, call in enumerate(_most_sizes(exercise, prop, range(100, 130))[:8] if prop else ()):
        if not all(isinstance(part, Tensor | int | float | bool | None) for part in call):
            return
        result, name = _tensor_of(_called(exercise.reference, call))
        if result is None or result.dim() < 2:
            return
        right = tuple(result.shape)
        swapped = {tuple(p) for p in itertools.permutations(right)}
        replaced = {(*right[:i], size, *right[i + 1 :]) for i in range(len(right)) for size in _sizes(call)}
        wrong = {tuple(other.shape) for answer in exercise.wrong if (other := _tensor_of(_called(answer, call))[0]) is not None}
        near = [w for w in sorted(wrong) if w != right and 0 < len(w) <= 5 and 0 not in w][:2]
        rest = sorted((swapped | replaced) - {right, *near})
        if len(near) + len(rest) < 3:
            continue
        options = near + draw.sample(rest, 3 - len(near))
        yield Question(
            "shape",
            exercise.id,
            f"sizes {number}",
            f"{_what(exercise)} What is the shape of {name}?",
            _call_text(exercise, call, shapes=True),
            (),
            tuple(AnswerOption(_shape(s), _shape_why(s, right), True) for s in (right, *options)),
            "",
            1.0,
        )


def prediction_questions(exercise: Exercise, draw: random.Random) -> Iterator[Question]:
    """Ask for the result on small integers, if it can be computed by hand and three wrong answers return different results."""
    made = 0
    for prop, seed in itertools.product((p for p in exercise.properties if not p.with_gradients and p.points), range(16)):
        call = _smallest_call(exercise, prop, 200 + seed)
        whole = call and _whole(call)
        if not whole:
            continue
        result, name = _tensor_of(_called(exercise.reference, whole))
        if result is None or not _readable(result) or _is_an_input(result, whole):
            continue
        right, wrong = _numbers(result), {}
        for answer in exercise.wrong:
            other = _tensor_of(_called(answer, whole))[0]
            if other is not None and _readable(other, exact=False) and _differs(result, other):
                wrong.setdefault(_numbers(other), answer)
        wrong.pop(right, None)
        if len(wrong) < 3:
            continue
        short = " T stands for True, F for False." if result.dtype == torch.bool else ""
        yield Question(
            "predict",
            exercise.id,
            f"{prop.name} {seed}",
            f"{_what(exercise)} What is {name}?{short}",
            _call_text(exercise, whole, shapes=False),
            (),
            (
                AnswerOption(right, f"The result of `{exercise.reference.__name__}`.", True),
                *(AnswerOption(text, _one_line(wrong[text]), True) for text in draw.sample(sorted(wrong), 3)),
            ),
            "",
            1.0 + result.numel() / 9,
        )
        made += 1
        if made == 6:
            return


MAKERS: dict[str, Callable[[Exercise, random.Random], Iterator[Question]]] = {
    "diagnose": diagnosis_questions,
    "predict": prediction_questions,
    "shape": shape_questions,
    "repair": repair_questions,
}


def mistake(answer: Answer) -> str:
    """Return the mistake of a wrong answer, from its docstring."""
    return _one_line(answer)


def _one_line(answer: Answer) -> str:
    return " ".join((inspect.getdoc(answer) or "").split())


def _broken(own: Statuses) -> str:
    """Return the name of the first property that an answer violates."""
    return next(name for name, status in own.items() if status == "fails")


def _kept(own: Statuses, theirs: Statuses) -> str:
    """Return the name of a property that the other answer violates and this one satisfies, or ""."""
    return next((name for name, status in theirs.items() if status == "fails" and own.get(name) == "holds"), "")


def _law(exercise: Exercise, name: str) -> str:
    return next(prop.law for prop in exercise.properties if prop.name == name)


def _shown(exercise: Exercise, answer: Answer) -> tuple[str, tuple[Footnote, ...]] | None:
    try:
        return printed(answer, exercise.reference.__name__), footnotes(answer)
    except Unprintable:
        return None


def _difficulty(code: str, notes: Sequence[Footnote], hidden: float) -> float:
    n_lines = code.count("\n") + sum(note.text.count("\n") + 1 for note in notes)
    return round(1 + n_lines / 8 + hidden, 2)


def _nearest_right(exercise: Exercise, answer: Answer) -> str | None:
    """Return the right answer, from the bank or the library, whose body differs from this one in the fewest lines."""
    name = exercise.reference.__name__
    given, texts = _body(printed(answer, name)), []
    for right in (exercise.reference, *exercise.right):
        with contextlib.suppress(Unprintable):
            texts.append(printed(right, name))
    return min(texts, key=lambda text: _n_changed(given, _body(text)), default=None)


def _body(text: str) -> list[str]:
    """Return the lines of a function's body in a normalised format."""
    return ast.unparse(ast.parse(text).body[0].body).splitlines()


def _n_changed(before: list[str], after: list[str]) -> int:
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return sum(max(i_end - i, j_end - j) for tag, i, i_end, j, j_end in changes if tag != "equal")


def _smallest_call(exercise: Exercise, prop: Property, seed: int) -> Call | None:
    with guarded():
        calls = exercise.calls(prop, seed)
    return min(calls, key=lambda call: sum(part.numel() for part in call if isinstance(part, Tensor)), default=None)


def _sizes(call: Call) -> list[int]:
    return sorted({size for part in call if isinstance(part, Tensor) for size in part.shape} - {1})


def _most_sizes(exercise: Exercise, prop: Property, seeds: Sequence[int]) -> list[Call]:
    """Return the calls, at most one per seed, whose axes have the most distinct sizes, so that sizes cannot be confused."""
    with guarded():
        calls = [max(exercise.calls(prop, seed), key=lambda call: len(_sizes(call)), default=None) for seed in seeds]
    known = [call for call in calls if call is not None]
    most = max((len(_sizes(call)) for call in known), default=0)
    return [call for call in known if len(_sizes(call)) == most]


def _called(function: Answer, call: Call) -> object:
    """Return the result of a function on copies of the arguments; None if it raises an exception."""
    with guarded():
        try:
            return function(*(part.clone() if isinstance(part, Tensor) else part for part in call))
        except Exception:
            return None


def _tensor_of(result: object) -> tuple[Tensor | None, str]:
    """Return the first tensor of a result, and its name in the question."""
    if isinstance(result, Tensor):
        return result, "the result"
    if isinstance(result, tuple) and result and isinstance(result[0], Tensor):
        fields = getattr(result, "_fields", None)
        return result[0], f"`{fields[0]}`, the first result" if fields else "the first result"
    return None, ""


def _what(exercise: Exercise) -> str:
    """Return the reference's name, its arguments with their defaults, and the first sentence of its docstring."""
    first = (inspect.getdoc(exercise.reference) or "").split("\n\n")[0].replace("\n", " ")
    parameters = inspect.signature(exercise.reference).parameters.values()
    arguments = ", ".join(p.name if p.default is p.empty else f"{p.name}={_written(p.default)}" for p in parameters)
    return f"`{exercise.reference.__name__}({arguments})`: {first}"


def _written(default: object) -> str:
    return repr(default) if isinstance(default, int | float | str | None) else getattr(default, "__name__", "…")


def _call_text(exercise: Exercise, call: Call, *, shapes: bool) -> str:
    names = list(inspect.signature(exercise.reference).parameters)
    width = max(len(name) for name in names[: len(call)])
    lines = []
    for name, part in zip(names, call, strict=False):
        value = _numbers(part) if isinstance(part, Tensor) else str(part)
        lines.append(f"{name:<{width}}  {_shape(tuple(part.shape)) if shapes and isinstance(part, Tensor) else value}")
    return "\n".join(lines)


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _shape_why(shape: tuple[int, ...], right: tuple[int, ...]) -> str:
    if shape == right:
        return "As the function defines it."
    if len(shape) != len(right):
        return f"It has {len(shape)} {'axis' if len(shape) == 1 else 'axes'}; the result has {len(right)}."
    if sorted(shape) == sorted(right):
        return "The sizes are right, but in the wrong order."
    return "At least one size is wrong."


def _whole(call: Call) -> Call | None:
    """Return the call with integers from -3 to 3, if it is small enough to be computed by hand."""
    tensors = [part for part in call if isinstance(part, Tensor)]
    if sum(part.numel() for part in tensors) > 24 or any(part.dim() > 3 for part in tensors):
        return None
    if not all(isinstance(part, Tensor | int | float | bool | None) for part in call):
        return None
    return tuple(
        part.detach().round().clamp(-3, 3) + 0.0 if isinstance(part, Tensor) and part.is_floating_point() else part
        for part in call
    )


def _readable(result: Tensor, exact: bool = True) -> bool:
    """Return whether a result is short and, if it must be exact, consists of quarters and thirds: computable by hand."""
    if not 1 < result.numel() <= 16 or result.is_complex():
        return False
    numbers = result.detach().double()
    if not numbers.isfinite().all() or (exact and numbers.unique().numel() < 2):
        return False
    return not exact or bool((numbers * 12 - (numbers * 12).round()).abs().max() < 1e-4)


def _is_an_input(result: Tensor, call: Call) -> bool:
    """Return whether the result is merely one of the arguments in another shape."""
    flat = result.flatten()
    return any(isinstance(part, Tensor) and part.numel() == flat.numel() and torch.equal(part.flatten(), flat) for part in call)


def _differs(a: Tensor, b: Tensor) -> bool:
    return a.shape != b.shape or bool((a.double() - b.double()).abs().max() > 0.02)


def _numbers(tensor: Tensor) -> str:
    """Write a tensor as nested lists with at most two decimals."""
    if not tensor.is_floating_point():
        return re.sub(r"True", "T", re.sub(r"False", "F", str(tensor.tolist())))
    rounded = torch.where(tensor.detach().double().abs() < 5e-3, 0.0, tensor.detach().double())
    return re.sub(r"-?\d+\.\d+(?:e[-+]\d+)?", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), str(rounded.tolist()))
