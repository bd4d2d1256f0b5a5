"""A GitHub template repository for one lecture: its notebook, and a workflow that reports points and feedback for each push.

Anyone who can push can also change the workflow, so its output is only for the student. For marks, run `course grade` on a
folder of clones. https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
"""

import re
from pathlib import Path

from course_tools.bank import exercises
from course_tools.grading.files import CannotGrade, make_folder
from course_tools.publishing import lectures
from course_tools.whole_file import write_whole

_ADDRESS = re.compile(r"https://[\w.~:@%+/-]+")
_WORKFLOW = """\
# On each push, write the points that the notebook would earn now into the summary of the run.
name: feedback

on: [push, workflow_dispatch]

permissions:
  contents: read

concurrency:
  group: feedback-${{{{ github.ref }}}}
  cancel-in-progress: true

jobs:
  feedback:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v6
        with:
          persist-credentials: false
      - run: git clone --quiet --depth 1 {repository} course
      - uses: actions/setup-python@v6
        with:
          python-version: "3.12"
          cache: pip
          cache-dependency-path: course/pyproject.toml
      - run: python course/course.py setup --cpu
      - name: Points and feedback
        shell: bash
        run: |
          set +e
          python course/course.py test-me {lecture} "$PWD/{notebook}" > feedback.txt 2>&1
          status=$?
          cat feedback.txt
          {{ echo '```'; cat feedback.txt; echo '```'; }} >> "$GITHUB_STEP_SUMMARY"
          exit $status
"""


def export(root: Path, lecture: str, folder: Path, repository: str) -> list[Path]:
    """Write a template repository: the notebook of a lecture and .github/workflows/feedback.yml.

    Args:
        root: the folder of the course.
        lecture: its number, such as "04".
        folder: the output folder; existing files of these names are replaced.
        repository: an https address from which the course can be cloned without a password.

    Returns:
        the files written.

    Raises:
        UnknownLecture: there is no such lecture.
        CannotGrade: it has no exercises or has not been built, the address is not https, or the folder is not writable.
    """
    (found,) = lectures(root, [lecture])
    if not exercises(found.number):
        raise CannotGrade(f"lecture {found.number} has no exercises.")
    if not _ADDRESS.fullmatch(repository):
        raise CannotGrade(f"GitHub clones from an https address, such as https://host/name/course.git, not {repository!r}.")
    try:
        notebook = found.unsolved.read_bytes()
    except OSError as error:
        raise CannotGrade(f"{found.name(found.unsolved)} does not exist: run `python course.py build`.") from error
    workflow = _WORKFLOW.format(repository=repository, lecture=found.number, notebook=found.unsolved.name)
    files = {folder / found.unsolved.name: notebook, folder / ".github" / "workflows" / "feedback.yml": workflow}
    for path, text in files.items():
        make_folder(path.parent)
        write_whole(path, text)
    return list(files)
