"""Tell whether a checked function is the student's or the library's: the word for a label or a printed line."""


def whose(*functions: object) -> str:
    """Say whose functions these are, as the word before a noun: `f"{whose(attend)} attention"`.

    `check` gives back the student's function where it is right, and else the library's. A label or printed line says which
    of the two made the result. A claim names the function instead: its text must not depend on the student.

    Args:
        functions: each as `check` returned it; one that was never checked is the student's.

    Returns:
        "your", or "the library's" where at least one of them is.
    """
    verdicts = [getattr(function, "_verdict_of_the_answer", None) for function in functions]
    return "your" if all(verdict is None or verdict.passed for verdict in verdicts) else "the library's"
