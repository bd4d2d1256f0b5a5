"""Put the unsolved lectures and the recorded studies into the wheel, for `course grade` and `recorded`."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithLectures(build_py):
    """Build the packages, and copy the notebooks of lectures/ and authoring/studies/ into course_tools."""

    def run(self) -> None:
        """Build as usual; an editable installation reads the lectures in place."""
        super().run()
        if not self.editable_mode:
            self._copy(sorted(Path("lectures").glob("[0-9][0-9]_*.ipynb")), "unsolved/lectures")
            self._copy(sorted(Path("authoring", "studies").glob("[0-9][0-9]_*")), "recorded_studies")

    def _copy(self, files: list[Path], folder: str) -> None:
        target = Path(self.build_lib, "course_tools", folder)
        self.mkpath(str(target))
        for file in files:
            self.copy_file(str(file), str(target / file.name))


setup(cmdclass={"build_py": WithLectures})
