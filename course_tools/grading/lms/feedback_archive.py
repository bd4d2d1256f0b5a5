"""Feedback for a whole class in one zip for upload to Canvas or Moodle, with the file names of their downloads.

Moodle (View all submissions → Upload multiple feedback files in a zip) identifies the student by the name of a folder,
"Full Name_123456_assignsubmission_file_", and keeps the file in it. Canvas (Upload submissions) identifies user and attachment
by the file name, and returns to the student a file of the same name as theirs: therefore it is a notebook, not a page.
"""

import io
import json
import zipfile
from collections.abc import Iterable, Mapping

from course_tools.grading.intake.submissions import Submission
from course_tools.grading.report.html import html
from course_tools.grading.report.results import Result, Results
from course_tools.grading.report.student_page import feedback, sections


def feedback_archives(results: Results, submissions: Iterable[Submission]) -> dict[str, bytes]:
    """Write the feedback of each student into an archive for the LMS from which their notebook was downloaded.

    Args:
        results: of the class.
        submissions: what was submitted; the file names contain the LMS's name of each student.

    Returns:
        the zips by file name, feedback_canvas.zip or feedback_moodle.zip; none for a plain folder. Equal results produce equal
        bytes.
    """
    of = {result.student.id: result for result in results.students}
    newest: dict[tuple[str, str], Submission] = {}
    for submission in sorted(submissions, key=lambda submission: submission.attempt):
        if submission.lms:
            newest[submission.lms, submission.student.id] = submission
    members: dict[str, dict[str, str | bytes]] = {}
    for (lms, id), submission in sorted(newest.items()):
        if lms == "Moodle":
            name, content = f"{submission.returned_as}/feedback.html", feedback(of[id], results)
        else:
            name, content = submission.returned_as, _notebook(of[id], results)
            content = _zip({"feedback.ipynb": content}) if name.lower().endswith(".zip") else content
        members.setdefault(f"feedback_{lms.lower()}.zip", {})[name] = content
    return {name: _zip(files) for name, files in members.items()}


def _notebook(result: Result, results: Results) -> str:
    """The feedback as a notebook of one cell."""
    text = f"<h1>Feedback: {html(result.student.name)}</h1>\n" + "\n".join(map(str, sections(result, results)))
    cell = {"cell_type": "markdown", "id": "feedback", "metadata": {}, "source": text.splitlines(keepends=True)}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def _zip(files: Mapping[str, str | bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            data_of = content.encode("utf-8", "replace") if isinstance(content, str) else content
            archive.writestr(zipfile.ZipInfo(name), data_of, zipfile.ZIP_DEFLATED)
    return data.getvalue()
