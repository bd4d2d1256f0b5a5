"""What takes the place of a widget in a notebook that is opened again, where JupyterLab only finds that its model is gone."""

import json

from course_tools.notebook.show import publish

_SCRIPT = """
const loading = new Map();
let looks = 30, absent = 600;
const isLost = (output) => {
    if (/^\\s*Error displaying widget/.test(output.textContent)) return true;
    if (!/^\\s*Loading widget/.test(output.textContent)) return false;
    loading.set(output, (loading.get(output) ?? 0) + 1);
    return loading.get(output) > 20;  // a slow machine may need some seconds for a widget that lives
};
const look = () => {
    const area = element.closest(".jp-OutputArea");
    for (const output of area?.querySelectorAll(".jp-OutputArea-output") ?? [])
        if (isLost(output)) output.innerHTML = STILL;
    if (area ? looks-- : absent--) setTimeout(look, 1000);
};
look();
"""


def stand_in(html: str) -> None:
    """Publish, beside a widget, what is shown in its place once the notebook is opened again without its kernel."""
    publish({"application/javascript": _SCRIPT.replace("STILL", json.dumps(html)), "text/plain": ""})
