"""Authorship of a checked function: a word for labels that says whether it is the student's or the library's."""


def whose(*functions: object) -> str:
    """Return the word that names the author of functions before a noun: `f"{whose(attend)} attention"`.

    `check` returns the student's function if it is right, and else the library's. A label or printed line says which of the two
    computed the result. A claim names the function instead: its text must not depend on the student.

    Args:
        functions: as returned by `check`; a function that was never checked is assumed to be the student's.

    Returns:
        "your", or "the library's" if at least one of them is the library's.
    """
    verdicts = [getattr(function, "_verdict_of_the_answer", None) for function in functions]
    return "your" if all(verdict is None or verdict.passed for verdict in verdicts) else "the library's"
