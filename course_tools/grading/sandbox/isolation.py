"""How well a machine keeps a student's code inside: measured by trying, and said in words."""

from dataclasses import dataclass

from course_tools.grading.sandbox.readable_files import secrets
from course_tools.grading.sandbox.sandbox import Sandbox, SandboxFailed
from course_tools.grading.sandbox.session import LOAD_LIMIT

ADVICE = {
    "Landlock": "Linux 5.13 or newer, with Landlock switched on",
    "seccomp": "Linux on x86_64 or aarch64",
    "privileges": "Linux",
    "network": "root, or user namespaces",
    "limits": "Linux or macOS",
    "session": "Linux or macOS",
    "files closed": "Linux or macOS",
}
NEEDED = ("session", "limits", "privileges", "Landlock", "files closed", "seccomp")
"""What full isolation needs; the network namespace is a second wall behind seccomp, where it is allowed."""


class NotIsolated(RuntimeError):
    """A wall that was required does not hold on this machine; the text says which and what to do."""


@dataclass(frozen=True)
class Isolation:
    """Which walls hold: `str(level)` is one sentence, `walls` gives each with "" or why it is missing.

    `open_doors` are the forbidden acts that succeeded when they were tried.
    """

    walls: dict[str, str]
    open_doors: tuple[str, ...]

    @property
    def full(self) -> bool:
        """Whether every wall that is needed holds, and no forbidden act succeeded."""
        return not self.open_doors and not any(self.walls.get(name, "missing") for name in NEEDED)

    @property
    def layers(self) -> tuple[str, ...]:
        """The walls that hold, one word each."""
        return tuple(name for name, reason in self.walls.items() if not reason)

    def __str__(self) -> str:
        """Say it in a sentence."""
        holds = f"{', '.join(self.layers) or 'no wall'}"
        if self.full:
            return f"Full isolation ({holds})."
        gaps = [
            f"{name} (needs {ADVICE.get(name, 'Linux')})" for name, reason in self.walls.items() if reason and name in NEEDED
        ]
        missing = f" Missing: {', '.join(gaps)}." if gaps else ""
        doors = f" A student's code can {', '.join(self.open_doors)}." if self.open_doors else ""
        return f"Partial isolation ({holds}).{missing}{doors}"


def measure(sandbox: Sandbox) -> Isolation:
    """Fork an inmate that tries what is forbidden.

    Raises:
        SandboxFailed: it cannot even compute.
    """
    with sandbox.inmate() as inmate:
        try:
            answer, _ = inmate.ask({"secrets": secrets()}, LOAD_LIMIT)
        except Exception as error:
            raise SandboxFailed("the trial of the walls gave no answer: they do not let torch compute here") from error
    return Isolation(dict(answer["walls"]), tuple(name for name, refused in answer["refused"].items() if not refused))
