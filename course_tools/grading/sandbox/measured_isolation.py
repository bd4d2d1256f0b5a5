"""Isolation of the sandbox on this machine: measured by attempts, and described in words."""

import tempfile
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
    "scratch": "Landlock, and root or user namespaces",
}
NEEDED = ("session", "limits", "privileges", "Landlock", "files closed", "seccomp")
"""The layers of full isolation; bubblewrap and the network namespace are additional layers, where they are available.

The scratch is not a layer, but a folder for the files of answers, which exists only where it can be limited.
"""


class NotIsolated(RuntimeError):
    """A required isolation layer is missing on this machine; the message says which, and what to do."""


@dataclass(frozen=True)
class Isolation:
    """The active isolation layers: `str(level)` is a summary, `status` maps each layer to "" or the reason why it is missing.

    `successful_attempts` are the forbidden acts that succeeded when attempted.
    """

    status: dict[str, str]
    successful_attempts: tuple[str, ...]

    @property
    def full(self) -> bool:
        """Whether every required layer is active, and no forbidden act succeeded."""
        return not self.successful_attempts and not any(self.status.get(name, "missing") for name in NEEDED)

    @property
    def layers(self) -> tuple[str, ...]:
        """The active layers, one word each."""
        return tuple(name for name, reason in self.status.items() if not reason)

    def __str__(self) -> str:
        """Return a summary in words."""
        no_files = f" An answer that writes files fails here (needs {ADVICE['scratch']})." if self.status.get("scratch") else ""
        holds = f"{', '.join(self.layers) or 'no layer'}"
        if self.full:
            return f"Full isolation ({holds}).{no_files}"
        gaps = [
            f"{name} (needs {ADVICE.get(name, 'Linux')})" for name, reason in self.status.items() if reason and name in NEEDED
        ]
        missing = f" Missing: {', '.join(gaps)}." if gaps else ""
        successes = f" A student's code can {', '.join(self.successful_attempts)}." if self.successful_attempts else ""
        return f"Partial isolation ({holds}).{missing}{successes}{no_files}"


def measure_isolation(sandbox: Sandbox) -> Isolation:
    """Fork a worker that attempts forbidden acts.

    Raises:
        SandboxFailed: the worker cannot even compute.
    """
    with tempfile.TemporaryDirectory() as folder, sandbox.fork() as worker:
        try:
            answer, _ = worker.ask({"secrets": secrets(), "folder": folder}, worker.allow(LOAD_LIMIT))
        except Exception as error:
            raise SandboxFailed(
                "the test of the isolation layers returned no result: torch cannot compute inside them on this machine"
            ) from error
    return Isolation(dict(answer["layers"]), tuple(name for name, refused in answer["refused"].items() if not refused))
