"""Sources that are meant to fell whoever parses them: each function makes the source of one cell, and says what it tries.

The grader parses them in its own process: stack, memory, time and the text of errors are what they aim at.
"""

ANSWER = "def general_scores(q, k, W):\n    return "
MANY = 100_000


def nested_brackets():
    """More brackets than the parser counts."""
    return ANSWER + "(" * MANY + "1" + ")" * MANY


def nested_lists():
    """As many brackets as the parser lets pass."""
    return ANSWER + "[" * 180 + "]" * 180


def nested_functions():
    """Functions in functions, as deep as indentation may be."""
    return "".join(" " * n + f"def general_scores(q, k{n}, W):\n" for n in range(95)) + " " * 95 + "return q.sum()"


def nested_lambdas():
    """A lambda in a lambda, and so on."""
    return ANSWER + "lambda: " * MANY + "1"


def nested_conditions():
    """One conditional expression in the other."""
    return ANSWER + "1 if q else " * MANY + "1"


def a_long_sum():
    """A sum of a hundred thousand terms: a tree as deep."""
    return ANSWER + "1" + " + 1" * MANY


def a_sum_of_middle_length():
    """A tree deeper than Python's limit of recursion, and not too deep for its parser."""
    return ANSWER + "1" + " + 1" * 2_000


def a_long_chain():
    """An attribute of an attribute, and so on."""
    return ANSWER + "q" + ".a" * MANY


def a_chain_of_middle_length():
    """The same, short enough to be parsed and too deep to be walked."""
    return ANSWER + "q" + ".a" * 2_500


def a_chain_of_calls():
    """A call of a call, and so on."""
    return ANSWER + "q" + "()" * MANY


def signs():
    """A hundred thousand minus signs."""
    return ANSWER + "-" * MANY + "1"


def negations():
    """A hundred thousand times not."""
    return ANSWER + "not " * MANY + "1"


def powers():
    """A tower of powers, which no constant folding should climb."""
    return ANSWER + "9**9**9**9**9"


def alternatives():
    """An elif for each of many cases: every one a level of the tree."""
    return "def general_scores(q, k, W):\n    if q: return 0\n" + "".join(
        f"    elif q == {n}: return {n}\n" for n in range(5_000)
    )


def decorators():
    """Ten thousand decorators."""
    return "@f\n" * 10_000 + ANSWER + "q.sum()"


def a_long_number():
    """A literal of a million digits."""
    return ANSWER + "9" * 1_000_000


def a_long_text():
    """A literal of ten million characters, with an escape in each tenth."""
    return ANSWER + "'" + "abcdefgh\\n" * 1_000_000 + "'"


def an_unfinished_text():
    """A text that nobody ends, over ten thousand lines."""
    return ANSWER + "'''" + "\n" * 10_000


def nested_formats():
    """Formatted strings with as many fields as fit."""
    return ANSWER + "f'" + "{q}" * 20_000 + "'"


def null_bytes():
    """A NUL, which the parser refuses in words of its own."""
    return ANSWER + "q.sum()\0"


def an_encoding():
    """A cookie for an encoding in which the text says something else."""
    return "# -*- coding: utf-7 -*-\n" + ANSWER + "+ACI-q+ACI-"


def an_unknown_encoding():
    """A cookie for an encoding that does not exist."""
    return "# coding: nonsense\n" + ANSWER + "W"


def the_other_direction():
    """Marks that turn the direction of the text, so that a reader sees other code than Python does."""
    return ANSWER + "q.sum()  # \u202e k @ W @ q nruter \u2066"


def signs_of_magic():
    """A million signs of a magic in one line."""
    return "%" * 1_000_000 + "\n" + ANSWER + "q.sum()"


def exclamations():
    """A million exclamation marks."""
    return "!" * 1_000_000 + "\n" + ANSWER + "q.sum()"


def questions():
    """A line of a million letters that ends in a question, as IPython's help does."""
    return "a" * 1_000_000 + "?\n" + ANSWER + "q.sum()"


def blanks():
    """A million blanks before a magic."""
    return " " * 1_000_000 + "%x\n" + ANSWER + "q.sum()"


def assignments_of_magic():
    """Ten thousand assignments of what a shell says."""
    return "x = !true\ny = %who\n" * 10_000 + ANSWER + "q.sum()"


def names_that_depend():
    """Ten thousand names, each made of the one before: work for whoever follows them."""
    return "x0 = 1\n" + "".join(f"x{n + 1} = x{n}\n" for n in range(10_000)) + ANSWER + "x10000"


def names_in_a_circle():
    """A thousand functions, each of which names all the others."""
    every = ", ".join(f"f{n}" for n in range(1_000))
    return "".join(f"def f{n}(): return [{every}]\n" for n in range(1_000)) + ANSWER + "f0()"


def one_name_often():
    """Fifty thousand assignments of one name."""
    return "x = 1\n" * 50_000 + ANSWER + "x"


def redefinitions():
    """The answer is defined ten thousand times."""
    return (ANSWER + "q.sum()\n") * 10_000


def a_future():
    """A feature of Python that never comes."""
    return "from __future__ import braces\n" + ANSWER + "q.sum()"


def a_star():
    """Everything from everywhere, under every name."""
    return "from course_lib.attention import *\nfrom os import *\n" + ANSWER + "q.sum()"


def an_answer_of_another_kind():
    """The name of the answer is a module, a class, a loop variable and a pattern."""
    return "import os as general_scores\nfor general_scores in (): pass\nclass general_scores: pass\n"


def it_deletes_itself():
    """The answer is defined and deleted."""
    return ANSWER + "q.sum()\ndel general_scores\n"


def a_shell():
    """A cell that is given to a shell."""
    return "%%bash\nexit 1\n" + ANSWER + "q.sum()"


def a_surrogate():
    """Half a character in a name."""
    return ANSWER + "'\udfff'"
