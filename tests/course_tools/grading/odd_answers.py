"""Right answers to exercise 04.1 in forms that a grader may stumble over."""

NAME = "scaled_dot_product_attention"
HEAD = f"def {NAME}(q, k, v, mask=None):"
BODY = "    return attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)"
MINE = f"def mine(q, k, v, mask=None):\n{BODY}"

ANSWERS = {
    "as it should be": f"{HEAD}\n{BODY}",
    "float64 inside": (
        f"{MINE}\n{HEAD}\n    c, w = mine(q.double(), k.double(), v.double(), mask)\n    return c.to(v.dtype), w.to(v.dtype)"
    ),
    "views": f"{MINE}\n{HEAD}\n    c, w = mine(q, k, v, mask)\n    return c.mT.clone().mT, w",
    "a list": f"{MINE}\n{HEAD}\n    return list(mine(q, k, v, mask))",
    "noise": f"{HEAD}\n    print('x' * 10**6)\n    import warnings\n    warnings.warn('no')\n{BODY}",
    "a lambda": f"{MINE}\n{NAME} = lambda *inputs: mine(*inputs)",
    "a class": f"class Mine:\n    def __call__(self, q, k, v, mask=None):\n    {BODY}\n{NAME} = Mine()",
    "a part": f"from functools import partial\ndef mine(scale, q, k, v, mask=None):\n{BODY}\n{NAME} = partial(mine, 1)",
    "types that nobody imported": f"def {NAME}(q: Unheard, k: 'of', v, mask: Nothing | None = None) -> Of:\n{BODY}",
    "an unused import that fails": f"import pandas_of_mine\n\n{HEAD}\n{BODY}",
    "a device": f"from course_tools.notebook import device\n{HEAD}\n    q = q.to(device())\n{BODY}",
    "a seed": f"torch.manual_seed(3)\n{HEAD}\n{BODY}",
    "a cache": f"kept = {{}}\n{HEAD}\n    kept[q.shape] = kept.get(q.shape, 0) + 1\n{BODY}",
    "a percent character that begins a line": f"size = (17\n%5)\n{HEAD}\n    assert size == 2\n{BODY}",
    "threads": (
        f"from concurrent.futures import ThreadPoolExecutor\n{MINE}\n{HEAD}\n"
        "    with ThreadPoolExecutor(2) as pool:\n        return pool.submit(mine, q, k, v, mask).result()"
    ),
    "output to nowhere": (
        f"import contextlib, os\n{HEAD}\n    with open(os.devnull, 'w') as f, contextlib.redirect_stdout(f):\n"
        f"        print('x')\n{BODY}"
    ),
    "a module of torch": f"class Mine(nn.Module):\n    def forward(self, q, k, v, mask=None):\n    {BODY}\n{NAME} = Mine()",
    "a decorator": f"def plain(f):\n    return lambda *x: f(*x)\n\n@plain\n{HEAD}\n{BODY}",
    "the check in the same cell": f'{HEAD}\n{BODY}\n\n{NAME} = check("04.1", {NAME})',
    "a try": f"try:\n    from nowhere import thing\nexcept ImportError:\n    thing = 1\n{HEAD}\n    assert thing\n{BODY}",
    "a constant set twice": f"n = 0\nn += 1\n{HEAD}\n    assert n == 1\n{BODY}",
    "an await below": f"{HEAD}\n{BODY}\n\nresult = await nothing()\nreturn 3",
    "a name of a builtin": f"sum = 3\n{HEAD}\n    assert sum == 3\n{BODY}",
    "a global": f"count = 0\n{HEAD}\n    global count\n    count += 1\n{BODY}",
    "an inner import": f"{HEAD}\n    import math, torch\n    from course_lib.attention.core import attend\n{BODY}",
    "numpy": f"import numpy as np\n{HEAD}\n    assert np.sqrt(4) == 2\n{BODY}",
    "tabs": f"{HEAD}\n\tx = 1\n\treturn attend(q @ k.mT / math.sqrt(k.shape[-1]), v, mask)",
    "an old stub left below": f"{HEAD}\n{BODY}\n    raise NotImplementedError()",
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass Scale:\n    by: float = 0.5\n"
        f"{HEAD}\n    assert Scale().by == 0.5\n{BODY}"
    ),
}
