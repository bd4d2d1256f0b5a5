"""`course exercises`: the list of exercises, and the answers that their checks are tested with."""

import json

from course_tools.bank import exercises
from course_tools.checks import Exercise
from course_tools.publishing.claims_table import aligned


def listing(as_json: bool) -> str:
    """List every exercise: id, lecture, title, points, library function, and its wrong answers and right variants by name."""
    described = [_described(item) for item in exercises()]
    if as_json:
        return json.dumps(described, indent=2, ensure_ascii=False)
    rows = [(d["id"], d["title"], str(d["points"]), d["function"]) for d in described]
    banks = [
        f"{d['id']}\n  wrong answers: {', '.join(d['wrong'])}\n  right variants: {', '.join(d['right'])}" for d in described
    ]
    return "\n\n".join((aligned([("id", "exercise", "points", "in the library"), *rows]), *banks))


def _described(item: Exercise) -> dict:
    return {
        "id": item.id,
        "lecture": item.lecture,
        "title": item.title,
        "points": item.points,
        "function": f"{item.reference.__module__}.{item.reference.__qualname__}",
        "wrong": [answer.__name__ for answer in item.wrong],
        "right": [answer.__name__ for answer in item.right],
    }
