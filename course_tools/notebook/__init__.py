"""Notebook tools: checks, measured claims, figures with alt text, interactives."""

from course_tools.notebook import diagrams, plots
from course_tools.notebook.boxed import boxed
from course_tools.notebook.check import check, failing
from course_tools.notebook.claim import ClaimFailed, claim, ledger
from course_tools.notebook.device import at_scale, device
from course_tools.notebook.digit_split import digit_split
from course_tools.notebook.explore import explore
from course_tools.notebook.fit import Trained, fit
from course_tools.notebook.grey import grey
from course_tools.notebook.memory import peak_memory
from course_tools.notebook.microscope import microscope
from course_tools.notebook.predict import predict
from course_tools.notebook.progress_bar import progress
from course_tools.notebook.progress_record import my_progress
from course_tools.notebook.recorded_studies import recorded, show_study
from course_tools.notebook.show import show
from course_tools.notebook.source import source

__all__ = [
    "ClaimFailed",
    "Trained",
    "at_scale",
    "boxed",
    "check",
    "claim",
    "device",
    "diagrams",
    "digit_split",
    "explore",
    "failing",
    "fit",
    "grey",
    "ledger",
    "microscope",
    "my_progress",
    "peak_memory",
    "plots",
    "predict",
    "progress",
    "recorded",
    "show",
    "show_study",
    "source",
]
