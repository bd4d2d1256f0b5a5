"""Interactive figures: sliders and buttons next to a drawing."""

import inspect
from collections.abc import Callable

from matplotlib.figure import Figure

from course_tools.notebook.frames import recorded_frames
from course_tools.notebook.progress_bar import watched
from course_tools.notebook.reopened import stand_in
from course_tools.notebook.show import caught, figure_html, in_notebook, publish, show

Control = bool | tuple[float, float] | tuple[float, float, float] | list[str]
"""The specification of a control; float includes int."""

_NAME_SLIDERS = """
const area = element.closest(".jp-OutputArea") ?? document.body;
const name = () => area.querySelectorAll(".widget-slider [role=slider]:not([aria-label])").forEach((handle) => {
    const label = handle.closest(".widget-slider").querySelector(".widget-label");
    handle.setAttribute("aria-label", label.textContent);
});
new MutationObserver(name).observe(area, { childList: true, subtree: true });
name();
"""
"""ipywidgets shows the name of a slider next to it, but not to screen readers: this script adds it as an `aria-label`."""


def explore(draw: Callable[..., None], **controls: Control) -> None:
    """Redraw whenever a control changes; outside a notebook, draw once with the initial values.

    A batch run, whose outputs are stored, records frames for a grid of positions, which sliders show without Python.

    Args:
        draw: called with one keyword argument for each control; shows its figure with `show`. A default in its signature is the
            control's initial value.
        controls: a tuple (low, high) or (low, high, step) makes a slider, of integers if all its elements are; a bool makes a
            checkbox; a list of words makes buttons. Underscores in the name become spaces in the description.

    Raises:
        TypeError: a control is none of these.
        ValueError: an initial value is outside the range of its control.
    """
    start = {name: _start(draw, name, control) for name, control in controls.items()}
    if not in_notebook():
        draw(**start)
        return
    if not watched():
        if frames := recorded_frames(draw, _all_positions(controls, start), start):
            publish({"text/html": frames, "text/plain": ""})
        draw(**start)
        return
    from ipywidgets import interact

    stills: list[str] = []

    def redraw(**values: object) -> None:  # a partial function, which `interact` does not take, may be given
        if stills:
            draw(**values)
            return
        figures: list[tuple[Figure, str]] = []
        with caught(figures):
            draw(**values)
        stills.extend(figure_html(figure, alt) for figure, alt in figures)
        stills.append("<em>To move the sliders, run this cell again.</em>")
        for figure, alt in figures:
            show(figure, alt)

    interact(redraw, **{name: _widget(name, control, start[name]) for name, control in controls.items()})
    publish({"application/javascript": _NAME_SLIDERS, "text/plain": ""})
    stand_in("".join(stills))


def _start(draw: Callable[..., None], name: str, control: Control) -> object:
    """The default in the signature of `draw`, else the control's first value."""
    default = inspect.signature(draw).parameters[name].default
    given = default is not inspect.Parameter.empty
    if isinstance(control, bool):
        return default if given else control
    if isinstance(control, tuple) and len(control) in (2, 3) and not any(isinstance(end, str) for end in control):
        value = default if given else control[0]
        if not control[0] <= value <= control[1]:
            raise ValueError(f"{name} starts at {value}, outside {control[0]} … {control[1]}.")
        return value
    if isinstance(control, list) and control and all(isinstance(option, str) for option in control):
        value = default if given else control[0]
        if value not in control:
            raise ValueError(f"{name} starts at {value!r}, which is not one of {control}.")
        return value
    raise TypeError(f"{name}: give (low, high) or (low, high, step), a bool, or a list of words; got {control!r}.")


def _all_positions(controls: dict[str, Control], start: dict[str, object]) -> dict[str, list]:
    """List the values that each control can take, the initial one among them."""
    positions = {}
    for name, control in controls.items():
        if isinstance(control, bool):
            positions[name] = [False, True]
        elif isinstance(control, list):
            positions[name] = control
        else:
            low, high, step = _range(control, start[name])
            values = {round(low + i * step, 9) for i in range(int((high - low) / step + 1.5))}
            positions[name] = sorted({value for value in values if value <= high} | {start[name]})
    return positions


def _range(control: tuple, value: object) -> tuple:
    """Return low, high, step; whole numbers have a step of 1 unless it is given, others a fiftieth of the range."""
    low, high, *step = control
    whole = all(isinstance(number, int) for number in (*control, value))
    return (low, high, *(step or [1 if whole else (high - low) / 50]))


def _widget(name: str, control: Control, value: object) -> object:
    import ipywidgets

    description = name.replace("_", " ")
    if isinstance(control, bool):
        return ipywidgets.Checkbox(value=value, description=description)
    if isinstance(control, list):
        return ipywidgets.ToggleButtons(options=control, value=value, description=description)
    low, high, step = _range(control, value)
    slider = ipywidgets.IntSlider if all(isinstance(n, int) for n in (*control, value)) else ipywidgets.FloatSlider
    wide = {"style": {"description_width": "initial"}, "layout": {"width": "28em"}}
    return slider(value=value, min=low, max=high, step=step, description=description, **wide)
