"""The public names of a package of the library: the `__all__` of its modules."""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def public_names(package: ModuleType) -> list[str]:
    """Return the names that a package re-exports, or those of a single module; a module without `__all__` has none."""
    if not hasattr(package, "__path__"):
        return package.__all__
    modules = [import_module(f"{package.__name__}.{module.name}") for module in iter_modules(package.__path__)]
    return [name for module in modules for name in getattr(module, "__all__", ())]
