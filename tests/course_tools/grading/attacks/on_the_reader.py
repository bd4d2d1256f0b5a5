"""Files that are meant to fell the grader while it reads them: each function makes the bytes of one, and says what it tries.

They are read in the grader's own process, so nothing but its own care protects it.
"""

import gzip
import json
import zlib

KIND = {"cell_type": "code", "execution_count": None, "outputs": []}


def notebook(*sources: object, **more: object) -> bytes:
    cells = [{**KIND, "id": f"c{n}", "metadata": {}, "source": source} for n, source in enumerate(sources)]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}).encode()


def with_metadata(metadata: object, source: object = "def general_scores(q, k, W): return q.sum()") -> bytes:
    cell = {**KIND, "id": "one", "metadata": metadata, "source": source}
    return json.dumps({"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}).encode()


def nothing():
    """An empty file."""
    return b""


def zeros():
    """A file that a full disk left behind."""
    return bytes(100_000)


def no_notebook():
    """A picture with the name of a notebook."""
    return b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100


def half_a_notebook():
    """A download that broke off."""
    return notebook("x = 1")[:-20]


def compressed():
    """A gzip file that grows a thousandfold."""
    return gzip.compress(bytes(10**7))


def deflated():
    """Raw deflate data."""
    return zlib.compress(bytes(10**6))


def a_number():
    """JSON, but a number."""
    return b"42"


def a_list():
    """JSON, but a list of lists."""
    return b"[[[]]]"


def nested_lists():
    """A hundred thousand brackets, to exhaust the stack of the JSON parser."""
    return b"[" * 100_000


def nested_objects():
    """The same with objects, inside the metadata of a cell."""
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    return b'{"cells": [{"cell_type": "code", "source": "", "metadata": ' + deep + b"}]}"


def nested_not_quite_too_deep():
    """Metadata as deep as the parser lets pass, for whoever walks it recursively."""
    deep = b'{"a":' * 800 + b"1" + b"}" * 800
    return b'{"cells": [{"cell_type": "code", "source": "def attend(): pass", "metadata": ' + deep + b"}]}"


def a_million_cells():
    """A million cells with nothing in them."""
    return b'{"cells": [' + b"{}," * 999_999 + b"{}]}"


def ten_thousand_answers():
    """Ten thousand cells that each define every function of the lecture."""
    names = ("additive_scores", "general_scores", "concat_scores", "attend", "encode", "teacher_forced_loss")
    return notebook(*["".join(f"def {name}(*x): return {n}\n" for name in names) for n in range(10_000)])


def ten_thousand_claims():
    """Ten thousand cells that each claim to be the same exercise."""
    cell = {
        **KIND,
        "metadata": {"exercise": "02.2", "nbgrader": {"solution": True}},
        "source": "def f(x): return general_scores",
    }
    return json.dumps({"cells": [cell] * 10_000}).encode()


def a_long_line():
    """Twenty million letters in one line."""
    return notebook("x" * 20_000_000)


def many_lines():
    """Three million empty lines."""
    return notebook("\n" * 3_000_000 + "def general_scores(q, k, W): return q.sum()")


def lines_as_a_list():
    """A million lines, each an element of a list."""
    return notebook(["x = 1\n"] * 1_000_000)


def twice_the_same_key():
    """Two lists of cells, and cells with two sources: parsers disagree which counts."""
    return b'{"cells": [], "cells": [{"cell_type": "code", "source": "x = 1", "source": "y = 1", "metadata": {}}]}'


def not_a_number():
    """NaN and infinities, which are no JSON, where numbers and texts are expected."""
    return b'{"cells": [{"cell_type": "code", "source": NaN, "metadata": {"exercise": -Infinity}}], "nbformat": Infinity}'


def a_long_number():
    """An integer of a million digits: quadratic time for whoever converts it."""
    return b'{"cells": [], "nbformat": ' + b"9" * 1_000_000 + b"}"


def a_large_number():
    """A number beyond every float, as the version of the format."""
    return b'{"cells": [], "nbformat": 1e999999}'


def cells_as_a_dictionary():
    """Cells that are no list."""
    return b'{"cells": {"0": {"cell_type": "code", "source": "x = 1"}}}'


def cells_that_are_none():
    """Cells that are texts, numbers and nothing."""
    return b'{"cells": [null, 1, "x", [], true, {"cell_type": null, "source": null, "metadata": null, "id": null}]}'


def wrong_types():
    """Every field of a cell has the wrong type."""
    return b'{"cells": [{"cell_type": ["code"], "id": {"a": 1}, "metadata": ["exercise"], "source": {"text": "x"}}]}'


def a_source_of_numbers():
    """A source whose lines are numbers."""
    return notebook([1, 2.5, None, {"a": 1}, ["x"], "y = 1"])


def an_exercise_that_is_a_list():
    """An exercise id that cannot be hashed."""
    return with_metadata({"exercise": ["02.2"], "tags": "x", "nbgrader": []})


def an_exercise_that_is_a_dictionary():
    """Metadata of the right names with the wrong contents."""
    return with_metadata({"exercise": {"id": "02.2"}, "nbgrader": {"grade_id": ["exercise-02-2"], "solution": "no"}, "tags": 7})


def an_exercise_that_is_a_number():
    """An exercise id that is a number, and a grade id that is a path."""
    return with_metadata({"exercise": 2.2, "nbgrader": {"grade_id": "../../../../etc/passwd"}, "tags": [["x"], None, {}]})


def an_exercise_of_no_lecture():
    """Ids that look like exercises and are none."""
    cells = [
        {**KIND, "metadata": {"exercise": id}, "source": "x"} for id in ("99.9", "02.2\0", "02.", "", "٠٢.2", "02.2 or 1=1")
    ]
    return json.dumps({"cells": cells}).encode()


def half_characters():
    """Lone surrogates in ids and sources: text that cannot be written in UTF-8."""
    return b'{"cells": [{"cell_type": "code", "id": "\\ud800", "metadata": {"exercise": "02.2"}, "source": "x = \'\\udfff\'"}]}'


def zero_characters():
    """NUL in the middle of a source."""
    return notebook("def general_scores(q, k, W):\0 return q.sum()")


def worksheets_of_nothing():
    """The old format, with results that are none."""
    return b'{"worksheets": [null, {"cells": null}, {"cells": [7]}, [], {"cells": [{"cell_type": "code", "input": 7}]}]}'


def another_encoding():
    """UTF-32, which nobody writes."""
    return notebook("x = 1").decode().encode("utf-32")


def hidden_encoding():
    """UTF-7, whose ASCII can hide quotation marks."""
    return notebook("x = '+ACI-'").decode().encode("utf-7")
