"""Ways to call a forbidden function unseen: each function says how, and gives what the forbidden one returns."""

import _thread
import ast
import contextlib
import ctypes
import gc
import importlib.util
import inspect
import marshal
import sys
import time
import types


def seen(f, *inputs):
    """It is called as it is."""
    return f(*inputs)


def unhooked(f, *inputs):
    """The watcher is taken off below Python, and put back before anybody looks."""
    watcher = sys.getprofile()
    ctypes.pythonapi.PyEval_SetProfile(None, None)
    try:
        return f(*inputs)
    finally:
        sys.setprofile(watcher)


def in_a_bare_thread(f, *inputs):
    """A thread that `threading` knows nothing of has no watcher."""
    found = []

    def call():
        try:
            found.append(f(*inputs))
        except BaseException as error:
            found.append(error)

    _thread.start_new_thread(call, ())
    while not found:
        time.sleep(0.001)
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


def with_other_observers(f, *inputs):
    """The functions that watch are replaced in the frames above."""
    frame = sys._getframe()
    while frame:
        if "watching" in frame.f_globals:
            frame.f_globals["watching"] = lambda *a: contextlib.nullcontext()
        frame = frame.f_back
    return unhooked(f, *inputs)


def without_its_notes(f, *inputs):
    """Whatever was noted is thrown away, wherever it is kept."""
    try:
        return unhooked(f, *inputs)
    finally:
        for thing in gc.get_objects():
            if type(thing) is set and thing and all(isinstance(item, str) for item in thing) and f.__name__ in thing:
                thing.clear()


def under_other_code(f, *inputs):
    """Its code is copied under another name: the watcher knows codes."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    if code is None:
        return unhooked(f, *inputs)
    return types.FunctionType(code.replace(co_name="mine"), inspect.unwrap(f).__globals__, "mine", f.__defaults__)(*inputs)


def loaded_again(f, *inputs):
    """Its module is executed anew, from its file."""
    module = sys.modules[f.__module__]
    again = importlib.util.module_from_spec(importlib.util.spec_from_file_location("mine", module.__file__))
    again.__package__ = module.__package__
    again.__spec__.loader.exec_module(again)
    return unhooked(getattr(again, f.__name__), *inputs)


def from_its_bytecode(f, *inputs):
    """The code of the function is taken from the compiled form of its file."""
    module = sys.modules[f.__module__]
    with open(importlib.util.cache_from_source(module.__file__), "rb") as file:
        code = marshal.loads(file.read()[16:])
    codes = [part for part in code.co_consts if isinstance(part, types.CodeType) and part.co_name == f.__name__]
    return unhooked(types.FunctionType(codes[-1].replace(co_name="mine"), vars(module)), *inputs)


def from_its_text(f, *inputs):
    """The text of the function is taken from its file, and run under another name."""
    module = sys.modules[f.__module__]
    with open(module.__file__) as file:
        tree = ast.parse(file.read())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == f.__name__]
    tree.body[0].name = "mine"
    names = dict(vars(module))
    exec(compile(tree, "mine", "exec", 1 << 24), names)
    return unhooked(names["mine"], *inputs)
