"""Build lectures, solutions and documents from authoring/, and run them. Importing this does not import torch."""

from course_tools.publishing.project import (
    Lecture,
    NotACourse,
    PublishingFailed,
    UnknownLecture,
    lectures,
    lectures_root,
    project_root,
)

__all__ = ["Lecture", "NotACourse", "PublishingFailed", "UnknownLecture", "lectures", "lectures_root", "project_root"]
