"""Publishing: turns authoring/ into lectures, solutions, docs and tables, and runs them. Light to import: no torch here."""

from course_tools.publishing.project import Lecture, NotACourse, PublishingFailed, UnknownLecture, lectures, project_root

__all__ = ["Lecture", "NotACourse", "PublishingFailed", "UnknownLecture", "lectures", "project_root"]
