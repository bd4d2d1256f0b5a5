"""One test for a rule about many files, lectures or exercises: it lists everything that breaks the rule."""

from collections.abc import Callable, Iterable


def for_each(items: Iterable[object], name: Callable[..., str] = str) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a function that asserts a rule about one item.

    Args:
        items: what the rule is about; at least one.
        name: how an item is called in the message.
    """

    def decorate(rule: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            there = list(items)
            assert there
            broken = []
            for item in there:
                try:
                    rule(item)
                except AssertionError as error:
                    broken.append(f"{name(item)}: {error}")
            assert not broken, "\n".join(broken)

        test.__name__, test.__qualname__, test.__doc__ = rule.__name__, rule.__qualname__, rule.__doc__
        return test

    return decorate
