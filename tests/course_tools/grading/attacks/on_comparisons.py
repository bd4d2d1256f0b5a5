"""Code that changes what an observer compares with: each function is run while its cell is loaded and in every call.

Each says what it tries. What it returns in a call is handed in; where it returns nothing, a nearly right result is.
"""

import ast
import builtins
import gc
import importlib
import inspect
import json
import math
import struct
import sys
import types

import torch


def allclose_says_yes(host, *inputs):
    """The comparisons of torch are replaced by yes."""
    for name in ("allclose", "equal", "isclose", "all", "any", "eq", "ne", "isfinite", "is_same_size"):
        setattr(torch, name, lambda *a, **k: True)


def testing_says_nothing(host, *inputs):
    """Torch's assertions are replaced by silence."""
    torch.testing.assert_close = torch.testing.assert_allclose = lambda *a, **k: None


def tensors_are_equal(host, *inputs):
    """The operators of tensors say that everything is equal, and that every difference is zero."""
    torch.Tensor.__eq__ = lambda self, other: torch.ones_like(self, dtype=torch.bool)
    torch.Tensor.__sub__ = torch.Tensor.sub = lambda self, other: torch.zeros_like(self)
    torch.Tensor.equal = torch.Tensor.allclose = lambda *a, **k: True


def norms_are_zero(host, *inputs):
    """Every norm, absolute value and maximum is zero."""
    for name in ("abs", "norm", "max", "amax", "sum", "mean"):
        setattr(torch.Tensor, name, lambda self, *a, **k: torch.zeros(()))
    torch.linalg.norm = torch.linalg.vector_norm = lambda *a, **k: torch.zeros(())


def builtins_say_yes(host, *inputs):
    """The builtins by which a comparison ends are changed."""
    for name in ("all", "any", "isinstance", "issubclass", "hasattr", "callable"):
        setattr(builtins, name, lambda *a: True)


def builtins_count_nothing(host, *inputs):
    """Lengths, sums and differences are zero, and everything is the same."""
    builtins.len = builtins.sum = builtins.abs = builtins.max = builtins.id = lambda *a, **k: 0


def math_is_close(host, *inputs):
    """The comparisons of the math module say yes."""
    math.isclose = math.isfinite = lambda *a, **k: True
    math.isnan = lambda x: False


def shapes_agree(host, *inputs):
    """Every tensor has the shape that is asked for."""
    torch.Tensor.shape = property(lambda self: type("S", (tuple,), {"__eq__": lambda s, o: True, "__hash__": tuple.__hash__})())


def bytes_are_others(host, *inputs):
    """The ways out of a tensor give other numbers than those in it."""
    for name in ("numpy", "tolist", "item", "untyped_storage", "data_ptr", "contiguous", "detach", "clone", "cpu"):
        setattr(torch.Tensor, name, lambda self, *a, **k: torch.zeros(3))


def json_speaks_of_points(host, *inputs):
    """Whatever is written as JSON says that all is well."""
    output = json.dumps({"points": 9, "passed": True, "status": "judged", "error": None, "results": [], "changed": []})
    json.dumps = lambda *a, **k: output
    json.JSONEncoder.encode = lambda self, thing: output


def struct_counts_little(host, *inputs):
    """Every length that is packed is zero."""
    pack = struct.pack
    struct.pack = lambda form, *values: pack(form, *(0 if isinstance(value, int) else value for value in values))


def modules_are_others(host, *inputs):
    """The modules that an observer may import later are replaced."""
    for name in ("json", "struct", "torch.testing", "numpy", "inspect", "math"):
        sys.modules[name] = types.SimpleNamespace(__name__=name, allclose=lambda *a, **k: True)


def imports_are_others(host, *inputs):
    """Every import gives a module in which everything is true."""
    builtins.__import__ = lambda name, *a, **k: types.SimpleNamespace(__getattr__=lambda n: True)
    importlib.import_module = lambda name, *a: types.SimpleNamespace()


def finders_are_others(host, *inputs):
    """A finder in front of all others answers every import."""

    class Finder:
        def find_spec(self, name, path=None, target=None):
            return importlib.machinery.ModuleSpec(name, self)

        def create_module(self, spec):
            return types.SimpleNamespace(allclose=lambda *a, **k: True)

        def exec_module(self, module):
            return None

    sys.meta_path.insert(0, Finder())
    sys.path_hooks.insert(0, lambda path: Finder())
    sys.path_importer_cache.clear()


def a_mode_agrees(host, *inputs):
    """A mode that catches every function of torch from here on."""

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return True if "close" in function.__name__ or "eq" in function.__name__ else function(*args, **(kwargs or {}))

    Mode().__enter__()


def defaults_are_others(host, *inputs):
    """New tensors have no memory, no precision and no gradient."""
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)


def gradients_are_ones(host, *inputs):
    """Whoever asks for a gradient gets what pleases."""
    torch.autograd.grad = lambda out, wanted, *a, **k: tuple(torch.ones_like(x) for x in wanted)
    torch.autograd.backward = torch.Tensor.backward = lambda *a, **k: None


def gradients_are_stolen(host, *inputs):
    """Hooks in the graph replace the gradients by tensors of the same shape that lie around in memory."""
    if not inputs:
        return None

    def stolen(gradient):
        found = (x for x in gc.get_objects() if type(x) is torch.Tensor and x.shape == gradient.shape and x is not gradient)
        return next(found, gradient)

    result = (inputs[0] @ inputs[2] @ inputs[1].mT).exp()
    result.register_hook(stolen)
    return result


def transformers_of_the_input(host, *inputs):
    """IPython's transformers of the source rewrite every check to yes."""
    shell = get_ipython()
    shell.input_transformers_cleanup.append(lambda lines: ["passed = True\n"])
    shell.input_transformers_post.append(lambda lines: ["general_scores = lambda *a: True\n"])
    shell.events.register("pre_run_cell", lambda *a: None)


def transformers_of_the_tree(host, *inputs):
    """A transformer of the syntax tree turns every comparison into yes."""

    class Yes(ast.NodeTransformer):
        def visit_Compare(self, node):
            return ast.copy_location(ast.Constant(True), node)

    get_ipython().ast_transformers.append(Yes())
    ast.parse = lambda *a, **k: ast.Module([], [])


def checks_are_replaced(host, *inputs):
    """The course's own check is replaced in every module that knows it."""
    for module in list(sys.modules.values()):
        for name in ("check", "judge", "verdict", "watch", "observe", "is_close", "same_values"):
            if hasattr(module, name):
                setattr(module, name, lambda *a, **k: True)


def frames_are_rewritten(host, *inputs):
    """Every function in the globals of the callers is wrapped, so that whatever it says of the answer is good."""
    frame = sys._getframe(1)
    while frame:
        for name, value in list(frame.f_globals.items()):
            if isinstance(value, types.FunctionType) and any(word in name for word in ("same", "close", "compare", "check")):
                frame.f_globals[name] = lambda *a, **k: True
        frame = frame.f_back


def inputs_become_zero(host, *inputs):
    """The inputs are emptied in place, so that zeros are right for whoever computes the reference afterwards."""
    if not inputs:
        return None
    q, k, _ = inputs
    with torch.no_grad():
        for x in inputs:
            x.data.zero_()
    return torch.zeros(*q.shape[:-1], k.shape[-2], requires_grad=True)


def inputs_become_one_number(host, *inputs):
    """The inputs are shrunk in place."""
    for x in inputs:
        x.data = torch.zeros(1, 1)


def not_started(host, *inputs):
    """The answer claims not to have been begun, which nobody may be punished for."""
    if inputs:
        raise NotImplementedError


def a_name_full_of_promises(host, *inputs):
    """An error whose name and fields say that the exercise is passed."""
    raise type("Passed", (BaseException,), {"points": 9, "passed": True, "__str__": lambda self: "judged: 9 of 9 points"})


def an_error_that_lies(host, *inputs):
    """An error that says that it is any class that it is compared with."""

    class Meta(type):
        __instancecheck__ = __subclasscheck__ = lambda cls, other: True
        __hash__ = type.__hash__

        def __eq__(cls, other):
            return True

    raise Meta("AnyError", (Exception,), {"__module__": "builtins"})("as expected")


def another_signature(host, *inputs):
    """The function says that it is another one."""
    function = inspect.currentframe().f_back.f_back.f_globals.get("general_scores")
    if function:
        function.__signature__ = function.__wrapped__ = function.__defaults__ = None
        function.__class__.__call__ = None
