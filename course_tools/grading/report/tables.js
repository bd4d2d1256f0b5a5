
"use strict";
// Search, filter and sort the tables of a report. Without this script they are complete, in the order of the file.
const FEWEST_ROWS = 8;
const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
const make = (tag, text, more) => Object.assign(document.createElement(tag), { textContent: text, ...more });
const labelled = (text, field) => {
  const label = make("label", `${text} `);
  label.append(field);
  return label;
};

for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows].map((row) => ({ row, text: plain(row.textContent), is: (row.dataset.is ?? "").split(";") }));
  if (rows.length < FEWEST_ROWS) continue;

  const kinds = new Map([["all", () => true]]);
  for (const state of new Set(rows.flatMap(({ is }) => is)))
    if (state) kinds.set(state, ({ is }) => is.includes(state));
  heads.forEach((head, i) => {
    const lost = ({ row }) => row.cells[i].matches(".part, .bad");
    if (rows.some(lost)) kinds.set(`not all points in ${head.textContent.replace(/ .*/, "")}`, lost);
  });

  const search = make("input", "", { type: "search" }), filter = make("select", ""), count = make("output", "");
  for (const [name, test] of kinds)
    filter.append(make("option", `${name} (${rows.filter(test).length})`, { value: name }));
  const show = () => {
    const words = plain(search.value).split(/\s+/), test = kinds.get(filter.value);
    let n = 0;
    for (const one of rows) {
      one.row.hidden = !(test(one) && words.every((word) => one.text.includes(word)));
      n += !one.row.hidden;
    }
    count.textContent = n === rows.length ? `${n} rows` : `${n} of ${rows.length} rows`;
  };
  search.addEventListener("input", show);
  filter.addEventListener("input", show);
  const bar = make("div", "", { className: "find" });
  bar.append(labelled("Search", search), ...(kinds.size > 1 ? [labelled("Show", filter)] : []), count);
  table.parentElement.before(bar);
  show();

  heads.forEach((head, i) => {
    const value = ({ row }) => row.cells[i].textContent.trim();
    const known = rows.map(value).filter((text) => !["", "–"].includes(text));
    const is_number = known.every((text) => !Number.isNaN(parseFloat(text)));
    const button = make("button", head.textContent, { type: "button" });
    button.addEventListener("click", () => {
      const up = head.ariaSort !== "ascending";
      for (const other of heads) other.ariaSort = null;
      head.ariaSort = up ? "ascending" : "descending";
      const key = new Map(rows.map((one) => [one, is_number ? parseFloat(value(one)) : value(one)]));
      const missing = (one) => Number.isNaN(key.get(one)) || key.get(one) === "";
      const order = (a, b) => (is_number ? key.get(a) - key.get(b) : collator.compare(key.get(a), key.get(b)));
      rows.sort((a, b) => missing(a) - missing(b) || (missing(a) ? 0 : up ? order(a, b) : order(b, a)));
      body.append(...rows.map(({ row }) => row));
    });
    head.replaceChildren(button);
  });
}
