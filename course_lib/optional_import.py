"""Import a package that the library does not require, or say in one sentence how to install it."""

from importlib import import_module
from types import ModuleType

__all__ = ["optional_import"]


def optional_import(module: str, package: str, purpose: str) -> ModuleType:
    """Import a module of an optional package, inside the function that needs it.

    Args:
        module: what to import, such as "sklearn.datasets".
        package: the name of the package for pip, such as "scikit-learn".
        purpose: what needs the package, the subject of the sentence, such as "the digits of UCI".

    Returns:
        The module.

    Raises:
        ImportError: the package is not installed; the text gives the command that installs it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # the package is installed, but one of its own requirements is not
        raise ImportError(f"{purpose} needs the package {package}: run `pip install {package}`.", name=error.name) from None
