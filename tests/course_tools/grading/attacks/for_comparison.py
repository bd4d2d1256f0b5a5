"""Two acts whose end is known, to see that the tests of the others can tell one from the other."""


def always(host):
    """It can be done everywhere."""
    return True


def never(host):
    """It can be done nowhere."""
    raise PermissionError
