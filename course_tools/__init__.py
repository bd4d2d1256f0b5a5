"""The course around `course_lib`: checks, exercises, notebook aids, publishing and grading."""
