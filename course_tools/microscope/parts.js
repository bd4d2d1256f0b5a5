// What the pages of the microscope share: elements, numbers as text, vectors as coloured cells, and the theme.
const byId = (id) => document.getElementById(id);
const round = (x, n = 2) => (Math.abs(x) < 0.5 * 10 ** -n ? 0 : x).toFixed(n).replace("-", "−");
const largest = (row) => row.indexOf(Math.max(...row));
const mean = (list) => sum(list) / list.length;
const range = (n) => Array.from({ length: n }, (_, i) => i);

/** Make an element: an attribute that is a function is a listener, and children may be text. */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "rect", "text", "title", "polyline"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** A vector as cells: warm above zero, cool below, stronger for larger numbers. */
function cells(vector, most) {
  const stops = [...vector].map((x, i) => `rgba(var(${x > 0 ? "--warm-rgb" : "--cool-rgb"}),${round(Math.min(1, Math.abs(x) / most)).replace("−", "")}) ` +
    `${(100 * i) / vector.length}% ${(100 * (i + 1)) / vector.length}%`);
  return make("span", { class: "vector", "aria-hidden": "true", style: `background:linear-gradient(90deg,${stops}) var(--zero)` });
}

/** Take the theme of the page around this one, which sends it, or else of the system; redraw when it changes. */
function followTheme(show) {
  const dark = matchMedia("(prefers-color-scheme: dark)"), paint = (theme) => { document.documentElement.dataset.theme = theme === "dark" ? "dark" : "light"; };
  paint(dark.matches ? "dark" : "light");
  let sent = null;
  dark.addEventListener("change", () => { if (!sent) { paint(dark.matches ? "dark" : "light"); show(); } });
  window.addEventListener("message", ({ data }) => { if (data?.theme) { paint(sent = data.theme); show(); } });
  document.documentElement.classList.toggle("framed", window.top !== window);
}
