"""A forward pass of GPT opens few files of the library, checks of its arguments included, so that a reader can follow it."""

import subprocess
import sys

TRACE = """
import sys
from pathlib import Path
import torch
import course_lib
from course_lib.blocks import Sizes
from course_lib.models import GPT

root = str(Path(course_lib.__file__).parent)
model, tokens, files = GPT(11, 13, Sizes(6, 3, 7, 2)), torch.zeros(2, 5, dtype=torch.long), set()

def note(frame, event, _):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        files.add(Path(frame.f_code.co_filename).name)

sys.setprofile(note)
model(tokens)
sys.setprofile(None)
print(*sorted(files))
"""


def test_a_forward_pass_opens_at_most_eight_files(pytestconfig):
    done = subprocess.run(
        [sys.executable, "-c", TRACE], cwd=pytestconfig.rootpath, capture_output=True, text=True, check=True, timeout=300
    )
    files = done.stdout.split()
    assert {"gpt.py", "block.py", "multihead.py", "core.py"} <= set(files)
    assert len(files) <= 8
