"""Exercise 07.6, few_shot_prompt: what students answer, wrong and right."""

from itertools import accumulate

from course_lib.generation import few_shot_prompt
from course_tools.checks.comparisons import Failure, same_shapes
from course_tools.checks.exercise import Answers, Call, Draw, Exercise, Property, has_shape, leaves_inputs, runs_on
from course_tools.checks.outcome import Outcome

wrong, right, stranger = Answers(), Answers(), Answers()

HINTS = (
    (
        "Write the prompt of the example out and mark every space and line break. What is at its end? And at its start, "
        "without a task?"
    ),
    (
        "Build three parts: the task with its line break (nothing where there is no task), two lines for each shot, and the "
        "question. Where the prompt is too long, only shots are left out."
    ),
    (
        "While there are shots and the prompt is longer than `room`, drop the first (`solved[1:]`). `room=0` is a limit, "
        "`None` is not."
    ),
)


def _parts(shots, question, names, task):
    """What stands before the shots, the shots, and what stands after them."""
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}\n" for given, answer in shots]
    return f"{task}\n" if task else "", solved, f"{names[0]}: {question}\n{names[1]}:"


def _shortened(before, solved, after, room, left=slice(1, None)):
    """Leave out the oldest until all fits; `left` are those that stay each time."""
    while solved and room is not None and len(before + "".join(solved) + after) > room:
        solved = solved[left]
    return before + "".join(solved) + after


@wrong.detail
def leaves_a_space_at_the_end(shots, question, names=("Input", "Output"), task="", room=None):
    """Your prompt ends with a space after the last colon. Most vocabularies have tokens with a leading space, so a lone
    space at the end is a sequence that training texts hardly contain; end with the colon."""
    before, solved, after = _parts(shots, question, names, task)
    return _shortened(before, solved, after + " ", room)


@wrong.detail
def ends_with_a_line_break(shots, question, names=("Input", "Output"), task="", room=None):
    """You end the last line with a line break, but the answer belongs on it, after the colon, as in the examples: end with
    the colon."""
    before, solved, after = _parts(shots, question, names, task)
    return _shortened(before, solved, after + "\n", room)


@wrong.detail
def leaves_no_space_after_the_colons(shots, question, names=("Input", "Output"), task="", room=None):
    """You write inputs and answers directly after their colons. A space follows each colon except the last."""
    whole = [(f"{names[0]}:{given}\n", f"{names[1]}:{answer}\n") for given, answer in shots]
    return _shortened(f"{task}\n" if task else "", [*map("".join, whole)], f"{names[0]}:{question}\n{names[1]}:", room)


@wrong.case
def begins_with_an_empty_line(shots, question, names=("Input", "Output"), task="", room=None):
    """You write the line break of the task even where there is no task. Your prompt then begins with an empty line, which
    uses up room."""
    _, solved, after = _parts(shots, question, names, task)
    return _shortened(f"{task}\n", solved, after, room)


@wrong.detail
def parts_the_shots_by_empty_lines(shots, question, names=("Input", "Output"), task="", room=None):
    """You put an empty line after each shot. The format has none: each shot is two lines, and the next follows directly."""
    before, solved, after = _parts(shots, question, names, task)
    return _shortened(before, [shot + "\n" for shot in solved], after, room)


@wrong.detail
def always_says_input_and_output(shots, question, names=("Input", "Output"), task="", room=None):
    """You write "Input" and "Output" and never use `names`. These two are only the default."""
    return _shortened(*_parts(shots, question, ("Input", "Output"), task), room)


@wrong.detail
def leaves_out_the_newest(shots, question, names=("Input", "Output"), task="", room=None):
    """You make room by leaving out the last shots. The oldest, at the front of the list, are left out first."""
    return _shortened(*_parts(shots, question, names, task), room, slice(-1))


@wrong.detail
def forgets_the_question_in_the_count(shots, question, names=("Input", "Output"), task="", room=None):
    """You make task and shots fit and add the question afterwards. What you return can then be longer than `room`; the
    limit is for the whole prompt, its open last line included."""
    before, solved, after = _parts(shots, question, names, task)
    return _shortened(before, solved, "", room) + after


@wrong.case
def never_fills_the_room(shots, question, names=("Input", "Output"), task="", room=None):
    """You leave out a shot even where the prompt is exactly `room` characters long. A prompt of exactly `room` characters
    still fits."""
    return _shortened(*_parts(shots, question, names, task), None if room is None else room - 1)


@wrong.part
def cuts_through_a_shot(shots, question, names=("Input", "Output"), task="", room=None):
    """You cut the finished prompt off at the front. That removes the task and cuts a shot in two; shots are left out whole,
    and task and question always stay."""
    before, solved, after = _parts(shots, question, names, task)
    prompt = before + "".join(solved) + after
    return prompt if room is None or len(prompt) <= room else prompt[len(prompt) - room :]


@wrong.case
def jumps_over_a_long_shot(shots, question, names=("Input", "Output"), task="", room=None):
    """You skip a shot that does not fit and keep older ones that do. If one does not fit, all older ones are left out too."""
    before, solved, after = _parts(shots, question, names, task)
    middle = ""
    for shot in reversed(solved):
        if room is None or len(before + shot + middle + after) <= room:
            middle = shot + middle
    return before + middle + after


@wrong.case
def takes_no_room_for_no_limit(shots, question, names=("Input", "Output"), task="", room=None):
    """You test `if room`. None is falsy, but so is 0: with room = 0 your prompt has every shot, where it should have none."""
    return _shortened(*_parts(shots, question, names, task), room or None)


@wrong.case
def takes_shots_off_the_list(shots, question, names=("Input", "Output"), task="", room=None):
    """You remove the oldest shots from the caller's list, which then has fewer shots for the next question; a tuple cannot
    be shortened at all."""
    while shots and room is not None and len("".join(map("".join, _parts(shots, question, names, task)))) > room:
        shots.pop(0)
    return "".join(map("".join, _parts(shots, question, names, task)))


@wrong.detail
def reverses_the_shots(shots, question, names=("Input", "Output"), task="", room=None):
    """You write the newest shot first. The shots keep their order: the oldest first, the newest just before the question."""
    before = f"{task}\n" if task else ""
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}\n" for given, answer in shots]
    after = f"{names[0]}: {question}\n{names[1]}:"
    while solved and room is not None and len(before + "".join(solved) + after) > room:
        solved = solved[1:]
    return before + "".join(reversed(solved)) + after


@wrong.part
def forgets_the_task(shots, question, names=("Input", "Output"), task="", room=None):
    """Your prompt never states the task: where `task` is not empty, it is the first line."""
    return few_shot_prompt(shots, question, names, room=room)


@wrong.case
def takes_shots_off_an_empty_list(shots, question, names=("Input", "Output"), task="", room=None):
    """You remove shots until the prompt fits, and it may not fit without any: then there is none left to remove. Task and
    question always stay."""
    before, solved, after = _parts(shots, question, names, task)
    while room is not None and len(before + "".join(solved) + after) > room:
        solved.pop(0)
    return before + "".join(solved) + after


@wrong.detail
def counts_no_line_breaks(shots, question, names=("Input", "Output"), task="", room=None):
    """You count the characters of the lines without the line breaks between them. They are characters of the prompt too."""
    before, solved, after = _parts(shots, question, names, task)
    lengths = [len(part) - part.count("\n") for part in solved]
    rest = len(before + after) - (before + after).count("\n")
    first = 0
    while room is not None and first < len(solved) and rest + sum(lengths[first:]) > room:
        first += 1
    return before + "".join(solved[first:]) + after


@wrong.detail
def parts_all_by_empty_lines(shots, question, names=("Input", "Output"), task="", room=None):
    """You put an empty line between all parts, also after the task. The format has none: each part begins in the next line."""
    before, solved, after = _parts(shots, question, names, task)
    return _shortened(before and f"{before}\n", [f"{shot}\n" for shot in solved], after, room)


@right
def from_the_newest_backwards(shots, question, names=("Input", "Output"), task="", room=None):
    """Begins with the bare question and puts shot after shot before it, the newest first, until one is too much."""
    head, prompt = task + "\n" * bool(task), f"{names[0]}: {question}\n{names[1]}:"
    for given, answer in reversed(shots):
        longer = f"{names[0]}: {given}\n{names[1]}: {answer}\n{prompt}"
        if room is not None and len(head) + len(longer) > room:
            break
        prompt = longer
    return head + prompt


@right
def line_by_line(shots, question, names=("Input", "Output"), task="", room=None):
    """A list of lines joined at the end, and a new attempt with every number of shots left out."""
    for first in range(len(shots) + 1):
        lines = [f"{name}: {text}" for shot in shots[first:] for name, text in zip(names, shot, strict=True)]
        prompt = "\n".join([task] * bool(task) + lines + [names[0] + ": " + question, names[1] + ":"])
        if room is None or len(prompt) <= room:
            return prompt
    return prompt


@right
def by_lengths_alone(shots, question, names=("Input", "Output"), task="", room=None):
    """Sums of the lengths from the newest shot on say how many fit, before any string is joined."""
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}\n" for given, answer in shots]
    ends = [task + "\n"] * (task != ""), [f"{names[0]}: {question}\n{names[1]}:"]
    taken = sum(map(len, ends[0] + ends[1]))
    n = len(solved) if room is None else sum(taken + s <= room for s in accumulate(map(len, reversed(solved))))
    return "".join(ends[0] + solved[len(solved) - n :] + ends[1])


def prompt(shots, question, names, task, room, end=":", line="\n"):
    before, after = f"{task}\n" if task else "", f"{names[0]}: {question}\n{names[1]}{end}"
    solved = [f"{names[0]}: {given}\n{names[1]}: {answer}{line}" for given, answer in shots]
    while room is not None and solved and len(before) + sum(map(len, solved)) + len(after) > room:
        solved = solved[1:]
    return before + "".join(solved) + after


@stranger
def prompt_in_capitals(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots, question, tuple(name.upper() for name in names), task, room)


@stranger
def prompt_that_answers(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots, question, names, task, room, end=": ?")


@stranger
def prompt_of_one_shot(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots[-1:], question, names, task, room)


@stranger(makes=[leaves_a_space_at_the_end])
def prompt_with_a_space(shots, question, names=("Input", "Output"), task="", room=None):
    while True:
        whole = prompt(shots, question, names, task, None, end=": ")
        if not shots or room is None or len(whole) <= room:
            return whole
        shots = shots[1:]


@stranger(makes=[leaves_a_space_at_the_end, parts_the_shots_by_empty_lines])
def prompt_spaced_and_parted(shots, question, names=("Input", "Output"), task="", room=None):
    return prompt(shots, question, names, task, room, end=": ", line="\n\n")


WORDS = ("otter", "mint", "plush giraffe", "cheese", "sea", "a long word or two", "tea", "snow")
LONG = ([("a", "b"), ("c", "d" * 50), ("e", "f")], "g", ("In", "Out"), "", 45)
"""A shot that does not fit, with a short one before it: what is left out is left out from the oldest on."""
ASKED = ([("a", "b" * 20), ("c", "d" * 20), ("e", "f" * 20)], "g" * 60, ("In", "Out"), "", 106)
"""A question longer than two shots, and room for one."""


def _shots(draw: Draw, n: int) -> tuple[list[tuple[str, str]], str]:
    """Draw n solved examples of different lengths, and a question."""
    words = [WORDS[i] for i in draw.integers(0, len(WORDS), 2 * n + 1).tolist()]
    return [(f"{given} {i}", f"{words[n + i]}!") for i, given in enumerate(words[:n])], words[-1]


def _rooms(draw: Draw, *more: int, task: str = "") -> list[Call]:
    """Rooms that hold the last 4, 3, 2, 1 shots and so many characters more, of the dozen that another shot has at least."""
    (shots, question), names = _shots(draw, 4), ("Word", "Mot")
    lengths = [len(few_shot_prompt(shots[i:], question, names, task)) for i in range(len(shots))]
    return [(shots, question, names, task, length + m) for length in lengths for m in more]


def _same_but_for_the_ends(expected: Outcome, got: Outcome) -> Failure | None:
    """Hold where the text is right but for spaces and line breaks before and after it."""
    if (failure := same_shapes(expected, got)) is not None:
        return failure
    want, have = expected.results[0], got.results[0]
    return None if want == have.strip() else Failure("The result is wrong.", f"Expected {want!r}, got {have!r}.")


exercise = Exercise(
    id="07.6",
    title="A prompt with examples",
    reference=few_shot_prompt,
    extra=True,
    properties=(
        runs_on(lambda draw: [_shots(draw, 2)]),
        has_shape("One text.", lambda draw: [_shots(draw, 2)]),
        Property(
            "zero-shot",
            "Without examples, the prompt is the question and the open answer.",
            lambda draw: [([], "3"), ((), "tea")],
        ),
        Property(
            "few-shot",
            "Each example is two lines; the next one follows directly, in the order given.",
            lambda draw: [_shots(draw, 1), _shots(draw, 3)],
            _same_but_for_the_ends,
            points=2,
        ),
        Property(
            "names",
            "`names` gives the words before input and answer.",
            lambda draw: [(*_shots(draw, 2), ("English", "French"))],
            _same_but_for_the_ends,
            needs=("few-shot",),
        ),
        Property(
            "task",
            "A task is the first line.",
            lambda draw: [(*_shots(draw, 2), ("Input", "Output"), "Translate."), ([], "tea", ("Input", "Output"), "Answer.")],
            _same_but_for_the_ends,
            needs=("few-shot",),
        ),
        Property(
            "newest",
            "Where not all fit, the newest examples stay, whole.",
            lambda draw: [*_rooms(draw, 5), LONG, ASKED],
            _same_but_for_the_ends,
            points=3,
            needs=("names",),
        ),
        Property(
            "fills",
            "A prompt of exactly `room` characters fits, one more does not.",
            lambda draw: _rooms(draw, -1, 0, 1, task="Translate."),
            points=2,
            needs=("zero-shot", "task", "newest"),
        ),
        Property(
            "stays",
            "Task and question always stay.",
            lambda draw: [*_rooms(draw, 5, task="Translate."), (*_shots(draw, 2), ("Q", "A"), "Answer.", 0)],
            needs=("zero-shot", "task", "newest"),
        ),
        leaves_inputs(lambda draw: [(*_shots(draw, 3), ("Q", "A"), "", 30)]),
    ),
    wrong=wrong,
    right=right,
    strangers=stranger,
    equivalent_mutants={
        "`is` has no sides.": ("swap sides: solved and None is not room and (len(before + ''.join(solved) + after) > room)",),
    },
    hints=HINTS,
)
