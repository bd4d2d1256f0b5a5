"""What a notebook shows: claims that are measured, figures with words, attention that is recorded, sliders."""

from course_lib.teaching import plots
from course_lib.teaching.boxed import boxed
from course_lib.teaching.claims import ClaimFailed, claim, ledger
from course_lib.teaching.device import at_scale, device
from course_lib.teaching.embeddings import clouds
from course_lib.teaching.memory import peak_memory
from course_lib.teaching.networks import network
from course_lib.teaching.progress import progress
from course_lib.teaching.record import record
from course_lib.teaching.show import show
from course_lib.teaching.weight_maps import weight_maps
from course_lib.teaching.widgets import explore

__all__ = [
    "ClaimFailed",
    "at_scale",
    "boxed",
    "claim",
    "clouds",
    "device",
    "explore",
    "ledger",
    "network",
    "peak_memory",
    "plots",
    "progress",
    "record",
    "show",
    "weight_maps",
]
