"""Right answers to exercise 02.2 in the forms in which honest students write them; `# %%` begins another cell."""

HEAD = "def general_scores(q, k, W):"
RETURN = "    return q @ W @ k.mT"
PLAIN = f"{HEAD}\n{RETURN}\n"
MINE = f"def mine(q, k, W):\n{RETURN}\n"

SOURCES = {
    "a table is filled by a loop at the top level": f"""
powers = []
for n in range(3):
    powers.append(n)
{HEAD}
    assert powers == [0, 1, 2]
{RETURN}
""",
    "a dictionary is filled in another cell": f"""
parts = {{}}
# %%
parts["dot"] = lambda a, b: a @ b.mT
# %%
{HEAD}
    return parts["dot"](q @ W, k)
""",
    "a list is extended in another cell": f"""
steps = [1.0]
# %%
steps.append(2.0)
steps[0] = 0.5
# %%
{HEAD}
    return (q * steps[0]) @ (W * steps[1]) @ k.mT
""",
    "functions register themselves": f"""
registry = {{}}

def register(function):
    registry[function.__name__] = function
    return function

@register
def dot(a, b):
    return a @ b.mT

{HEAD}
    return registry["dot"](q @ W, k)
""",
    "a function sets a global": f"""
def prepare():
    global scale
    scale = 1.0

prepare()

{HEAD}
    return scale * (q @ W @ k.mT)
""",
    "a method is added to tensors": f"""
torch.Tensor.flipped = lambda self: self.mT
{HEAD}
    return torch.matmul(q @ W, k.flipped())
""",
    "an attribute is set on a class of one's own": f"""
class Settings:
    pass

Settings.scale = 1.0
settings = Settings()
settings.shift = 0.0
{HEAD}
    return (q @ W @ k.mT) * Settings.scale + settings.shift
""",
    "a class whose instance is called": """
class Scores:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, q, k, W):
        return self.scale * (q @ W @ k.mT)

general_scores = Scores(1.0)
""",
    "a method of an instance": """
class Scores:
    def score(self, q, k, W):
        return q @ W @ k.mT

general_scores = Scores().score
""",
    "a static method": """
class Scores:
    @staticmethod
    def score(q, k, W):
        return q @ W @ k.mT

general_scores = Scores.score
""",
    "a module of torch": """
class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.0)

    def forward(self, q, k, W):
        return self.dropout(q @ W @ k.mT)

general_scores = Scores().eval()
""",
    "a lambda": "general_scores = lambda q, k, W: q @ W @ k.mT\n",
    "a lambda of any arguments": f"{MINE}\ngeneral_scores = lambda *inputs, **more: mine(*inputs, **more)\n",
    "a part of a function": """
from functools import partial

def scaled(scale, q, k, W):
    return scale * (q @ W @ k.mT)

general_scores = partial(scaled, 1.0)
""",
    "a function made by a function": """
def make(scale):
    def score(q, k, W):
        return scale * (q @ W @ k.mT)
    return score

general_scores = make(1.0)
""",
    "one of two functions that are assigned at once": f"{MINE}\nother, general_scores = None, mine\n",
    "a function that is composed": """
from functools import reduce
general_scores = lambda *m: reduce(torch.matmul, (m[0], m[2], m[1].mT))
""",
    "a definition under a condition": f"""
if torch.cuda.is_available() or True:
    {HEAD}
    {RETURN}
else:
    general_scores = None
""",
    "a definition in a try": f"""
try:
    import a_package_that_nobody_has
except ImportError:
    {HEAD}
    {RETURN}
""",
    "two attempts in one cell, the better below": f"{HEAD}\n    return q @ k.mT\n\n{PLAIN}",
    "the empty function left above": f"{HEAD}\n    raise NotImplementedError()\n\n{PLAIN}",
    "the error left below the return": f"{PLAIN}    # YOUR CODE HERE\n    raise NotImplementedError()\n",
    "an earlier attempt under another name in a cell below": f"{PLAIN}\n# %%\ndef general_scores_old(q, k, W):\n    return q\n",
    "an earlier attempt in a cell above": f"{HEAD}\n    return k @ q.mT\n# %%\n{PLAIN}",
    "an attempt that is cut in two cells": f"{HEAD}\n    x = q @ W\n# %%\n    return x @ k.mT\n",
    "helpers in cells above and below": f"""
second = lambda k: k.mT
# %%
{HEAD}
    return first(q, W) @ second(k)
# %%
def first(q, W):
    return q @ W
""",
    "helpers of helpers": """
def a(x): return b(x)
def b(x): return c(x)
# %%
def c(x): return x.mT
# %%
def general_scores(q, k, W): return q @ W @ a(k)
""",
    "a helper with the name of an exercise of another lecture": f"""
def causal_mask(x):
    return x
{HEAD}
    return causal_mask(q @ W @ k.mT)
""",
    "a helper with the name of a module": f"""
def mean(x):
    return x.mT
{HEAD}
    return q @ W @ mean(k)
""",
    "other names for the arguments": "def general_scores(one, other, by, *, x=1):\n    return x * one @ by @ other.mT\n",
    "names in Greek": "def general_scores(ψ, κ, Ω):\n    σ = ψ @ Ω\n    return σ @ κ.mT\n",
    "the name in letters that look alike to Python": "def general_ｓcores(q, k, W):\n    return q @ W @ k.mT\n",
    "types that nobody knows": f'def general_scores(q: Any["b t", 3], k: "of", W: np.ndarray) -> "Scores":\n{RETURN}\n',
    "types by strings": f"from __future__ import annotations\n\n{PLAIN}",
    "a type of one's own": f"""
from typing import NewType, TypeVar
Matrix = NewType("Matrix", torch.Tensor)
T = TypeVar("T", bound=torch.Tensor)
def general_scores(q: T, k: T, W: Matrix) -> T:
{RETURN}
""",
    "float64 inside": f"{HEAD}\n    return (q.double() @ W.double() @ k.double().mT).to(q.dtype)\n",
    "a view with strides of its own": f"{HEAD}\n    return (k @ W.mT @ q.mT).mT\n",
    "a parameter": f"{HEAD}\n    return torch.einsum('...qd,de,...ke->...qk', q, W, k)[..., :, :]\n",
    "a loop over everything": f"""
{HEAD}
    rows = []
    for i in range(q.shape[-2]):
        rows.append(torch.stack([(q[..., i, :] @ W * k[..., j, :]).sum(-1) for j in range(k.shape[-2])], -1))
    return torch.stack(rows, -2)
""",
}
