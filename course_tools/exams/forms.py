"""Compose the forms of an exam: the same plan, different questions of equal difficulty, balanced letters.

A plan is a list of slots, each an exercise and a kind of question. In every slot each form gets a different question, as close
in difficulty as the bank allows; the hardest goes to the form that is the easiest so far. A form prints code of an exercise
only once: two answers to the same exercise on one form would reveal each other's mistakes.
"""

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

from course_tools.bank import LECTURES, exercises
from course_tools.checks.exercise import Exercise
from course_tools.command_failed import CommandFailed
from course_tools.exams.questions import KINDS, MAKERS, MINUTES, AnswerOption, Question

LETTERS = "ABCD"
_WITH_CODE = {"diagnose", "repair"}
_MIX = (("repair", 0.18), ("predict", 0.15), ("shape", 0.17), ("diagnose", 1.0), ("predict", 1.0), ("shape", 1.0))
"""The fraction of the minutes for each kind of question, in this order, if the bank has enough questions of that kind."""


class CannotCompose(CommandFailed):
    """The bank cannot provide the requested exam; the text says what is missing."""


@dataclass(frozen=True)
class PlacedQuestion:
    """A question on a form: its options in the form's order, and the letter of the right one; "" for a written answer."""

    question: Question
    options: tuple[AnswerOption, ...]
    letter: str


@dataclass(frozen=True)
class Form:
    """One form of an exam: its name, such as "A", and its items in order."""

    name: str
    items: tuple[PlacedQuestion, ...]

    @property
    def difficulty(self) -> float:
        """The sum over its questions."""
        return sum(item.question.difficulty for item in self.items)

    @property
    def minutes(self) -> int:
        """The sum over its questions."""
        return sum(MINUTES[item.question.kind] for item in self.items)


def compose(lectures: Sequence[str], n_forms: int, minutes: int = 40, seed: int = 0) -> list[Form]:
    """Compose the forms of an exam.

    Args:
        lectures: numbers of lectures, such as "04".
        n_forms: how many forms, 1 to 26.
        minutes: the length of a form, an upper bound.
        seed: draws questions, options and their order; the same seed gives the same exam.

    Returns:
        forms with the same kinds of questions about the same exercises, in the same order. No question is in two forms.

    Raises:
        CannotCompose: a lecture does not exist, a number is out of range, or there are too few questions.
    """
    if unknown := sorted(set(lectures) - set(LECTURES)):
        raise CannotCompose(f"there is no lecture {', '.join(unknown)}; there are {LECTURES[0]} to {LECTURES[-1]}.")
    if not lectures or not 1 <= n_forms <= 26 or minutes < 10:
        got = f"{len(lectures)} lectures, {n_forms} forms and {minutes} minutes"
        raise CannotCompose(f"an exam needs a lecture, 1 to 26 forms and 10 minutes or more; got {got}.")
    draw = random.Random(f"exam {seed}")
    asked = [exercise for exercise in exercises() if exercise.lecture in lectures and exercise.training is None]
    slots = _plan(asked, n_forms, minutes, draw)
    if not slots:
        raise CannotCompose(f"the bank has too few questions on lecture {', '.join(lectures)} for {n_forms} forms.")
    chosen: list[list[Question]] = [[] for _ in range(n_forms)]
    for questions in slots:
        easiest_first = sorted(range(n_forms), key=lambda form: sum(q.difficulty for q in chosen[form]))
        for form, question in zip(easiest_first, sorted(questions, key=lambda q: -q.difficulty), strict=True):
            chosen[form].append(question)
    return [Form(string.ascii_uppercase[i], _lettered(questions, draw)) for i, questions in enumerate(chosen)]


def _plan(asked: list[Exercise], n_forms: int, minutes: int, draw: random.Random) -> list[list[Question]]:
    """Fill the minutes with slots, each holding the questions of all forms: one kind after another, the exercises in turn."""
    slots: list[list[Question]] = []
    used: set[tuple[str, str]] = set()
    left = minutes
    for kind, part in _MIX:
        share = min(left, max(MINUTES[kind], round(minutes * part)))
        for exercise in draw.sample(asked, len(asked)):
            about = (exercise.id, "code" if kind in _WITH_CODE else kind)
            if share < MINUTES[kind]:
                break
            if about in used:
                continue
            made = list(MAKERS[kind](exercise, draw))
            if len(made) < n_forms:
                continue
            used.add(about)
            slots.append(_alike(made, n_forms, draw))
            share -= MINUTES[kind]
            left -= MINUTES[kind]
    return sorted(slots, key=lambda taken: (taken[0].exercise, KINDS.index(taken[0].kind)))


def _alike(questions: list[Question], n: int, draw: random.Random) -> list[Question]:
    """Choose n questions of similar difficulty: neighbours in the order of difficulty, from a random start."""
    draw.shuffle(questions)
    ordered = sorted(questions, key=lambda q: q.difficulty)
    spreads = [ordered[i + n - 1].difficulty - ordered[i].difficulty for i in range(len(ordered) - n + 1)]
    near = [i for i, spread in enumerate(spreads) if spread <= min(spreads) + 0.25]
    start = draw.choice(near)
    return ordered[start : start + n]


def _lettered(questions: list[Question], draw: random.Random) -> tuple[PlacedQuestion, ...]:
    """Order the options so that the numbers of right answers per letter differ by at most one."""
    n_choices = sum(bool(question.options) for question in questions)
    letters = list((LETTERS * (n_choices // 4 + 1))[: n_choices - n_choices % 4]) + draw.sample(LETTERS, n_choices % 4)
    draw.shuffle(letters)
    items = []
    for question in questions:
        if not question.options:
            items.append(PlacedQuestion(question, (), ""))
            continue
        right, *wrong = question.options
        draw.shuffle(wrong)
        letter = letters.pop()
        wrong.insert(LETTERS.index(letter), right)
        items.append(PlacedQuestion(question, tuple(wrong), letter))
    return tuple(items)
