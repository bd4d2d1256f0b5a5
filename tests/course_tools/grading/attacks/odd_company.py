"""Right answers to exercise 02.2 among prints, plots, magics and experiments; `# %%` begins another cell."""

HEAD = "def general_scores(q, k, W):"
RETURN = "    return q @ W @ k.mT"
PLAIN = f"{HEAD}\n{RETURN}\n"

SOURCES = {
    "prints, warnings, a log and a bar": f"""
import logging
import warnings
from tqdm.auto import tqdm
{HEAD}
    print("shapes:", q.shape, k.shape, flush=True)
    warnings.warn("I am not sure", stacklevel=2)
    logging.warning("still not sure")
    for _ in tqdm(range(3)):
        pass
{RETURN}
""",
    "something is displayed": f"""
from IPython.display import Markdown, display
{HEAD}
    display(Markdown('hello'), q.shape)
{RETURN}
""",
    "something is displayed without an import": f"{HEAD}\n    display(q)\n{RETURN}\n",
    "plots at the top level": f"""
import matplotlib.pyplot as plt
import seaborn as sns
fig, ax = plt.subplots()
ax.plot([1, 2, 3])
plt.show()
{PLAIN}
sns.heatmap(general_scores(torch.ones(2, 3), torch.ones(2, 3), torch.eye(3)))
""",
    "a plot in the function, switched off": f"""
import matplotlib.pyplot as plt
DEBUG = False
{HEAD}
    if DEBUG:
        plt.imshow(q)
{RETURN}
""",
    "imports that are not there": f"import pandas_profiling, wandb\nfrom transformers_of_mine import *\n{PLAIN}",
    "imports of tables and learners": f"import pandas as pd\nimport sklearn\n{HEAD}\n    pd.DataFrame()\n{RETURN}\n",
    "numpy for a constant": f"import numpy as np\nscale = float(np.exp(0))\n{HEAD}\n    return scale * q @ W @ k.mT\n",
    "magics everywhere": f"""
!pip install -q einops
%matplotlib inline
%load_ext autoreload
{PLAIN}
%timeit general_scores(torch.ones(2, 3), torch.ones(2, 3), torch.eye(3))
general_scores?
files = !ls
!echo done
""",
    "a cell that is timed": f"%%time\n{PLAIN}",
    "a cell whose output is caught": f"%%capture output\n{PLAIN}",
    "a shell in a cell beside it": f"%%bash\nrm -rf nothing\nif [ 1 ]; then echo; fi\n# %%\n{PLAIN}",
    "a page of HTML beside it": f"%%html\n<b>hello</b>\n# %%\n{PLAIN}",
    "notes that are no Python in a cell beside it": f"I think the answer is q W k, but why?\n# %%\n{PLAIN}",
    "an await and a return at the top level": f"{PLAIN}\nimport asyncio\nawait asyncio.sleep(0)\n",
    "an experiment that fails below": f"{PLAIN}\ngeneral_scores(1, 2, 3)\nassert False\nraise SystemExit\n",
    "an experiment that waits below": f"{PLAIN}\ninput('go on? ')\nimport time\ntime.sleep(600)\nwhile True: pass\n",
    "an experiment that fails in the cell above": f"result = 1 / 0\nraise ValueError('no')\n# %%\n{PLAIN}",
    "the check in the same cell": f'{PLAIN}\ngeneral_scores = check("02.2", general_scores)\nprint("passed!")\n',
    "settings of torch in a cell above": f"""
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
torch.autograd.set_detect_anomaly(True)
torch.set_printoptions(precision=2)
# %%
{PLAIN}""",
    "a device of one's own": f"""
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
{HEAD}
    return q.to(device) @ W.to(device) @ k.to(device).mT
""",
    "the seconds it takes": f"import time\n{HEAD}\n    time.sleep(0.15)\n{RETURN}\n",
    "a memory of what was computed": f"""
from functools import lru_cache

@lru_cache(maxsize=None)
def size(n):
    return n
{HEAD}
    assert size(q.shape[-1]) > 0
{RETURN}
""",
    "a decorator that takes the time": f"""
import functools
import time

def timed(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            print(time.perf_counter() - start)
    return wrapper

@timed
{PLAIN}""",
    "a decorator of torch": f"@torch.enable_grad()\n{PLAIN}",
    "an own check of the shapes": f"""
def expect(x, n):
    if x.dim() < n:
        raise ValueError(f"{{x.shape}} has too few axes")
    return x
{HEAD}
    return expect(q, 2) @ W @ expect(k, 2).mT
""",
    "everything in a with": f"{HEAD}\n    with torch.autocast('cpu', enabled=False):\n        return q @ W @ k.mT\n",
    "Windows line ends": PLAIN.replace("\n", "\r\n"),
    "tabs": PLAIN.replace("    ", "\t"),
    "a form feed": f"\f\n{PLAIN}",
    "a comment in Chinese, with emoji": f"# 注意力 🙂 É\n{PLAIN}",
    "a matching": f"{HEAD}\n    match q.dim():\n        case 0:\n            pass\n        case _:\n        {RETURN}\n",
    "a walrus": f"{HEAD}\n    return (x := q @ W) @ k.mT\n",
    "other imports of the course": f"""
import course_lib
import course_lib.attention as ca
from course_lib.attention import additive_scores as other
from course_tools.notebook import *
{HEAD}
    return q @ W @ k.mT if callable(other) and ca is course_lib.attention else None
""",
    "a star": f"from torch import *\nfrom math import *\n{HEAD}\n    return matmul(q @ W, k.mT) * exp(zeros(1))\n",
    "a function by another name": f"from torch import matmul as mm\n{HEAD}\n    return mm(F.linear(q, W.mT), k.mT)\n",
    "a pasted log in a cell above": "# " + "tensor([0.1234, 0.5678])\n# " * 12_000 + f"\n# %%\n{PLAIN}",
    "pasted data in a cell above": "data = [" + "0.12345678, " * 20_000 + f"]\n# %%\n{PLAIN}",
    "a seed": f"torch.manual_seed(3)\n{PLAIN}",
    "a constant set twice": f"n = 0\nn += 1\n{HEAD}\n    assert n == 1\n{RETURN}\n",
    "a percent character that begins a line": f"size = (17\n%5)\n{HEAD}\n    assert size == 2\n{RETURN}\n",
    "a name of a builtin": f"sum = 3\n{HEAD}\n    assert sum == 3\n{RETURN}\n",
    "an inner import": f"{HEAD}\n    import math, torch\n    from course_lib.attention.core import attend\n{RETURN}\n",
    "a dataclass": f"""
from dataclasses import dataclass

@dataclass
class Scale:
    by: float = 0.5

{HEAD}
    assert Scale().by == 0.5
{RETURN}
""",
    "threads": f"""
from concurrent.futures import ThreadPoolExecutor

def mine(q, k, W):
{RETURN}

{HEAD}
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(mine, q, k, W).result()
""",
    "output to nowhere": f"""
import contextlib, os

{HEAD}
    with open(os.devnull, 'w') as f, contextlib.redirect_stdout(f):
        print('x')
{RETURN}
""",
}
