// A field above the tables of the evidence and above the glossary that shows only what has all its words.
(function () {
  "use strict";
  const ITEMS = { evidence: "section > ol > li", glossary: "section > section" };
  const FEWEST = 8;

  document.addEventListener("DOMContentLoaded", function () {
    const [, page] = location.pathname.match(/docs\/(claims|rivals|headlines|studies|papers|evidence|glossary)\.html$/) ?? [];
    const title = document.querySelector(".bd-article h1");
    if (!page || !title) return;
    const items = [...document.querySelectorAll(`.bd-article :is(${ITEMS[page] ?? "tbody tr"})`)];
    if (items.length < FEWEST) return;
    const words = items.map((item) => item.textContent.toLowerCase());
    const sections = [...document.querySelectorAll(".bd-article section section")].filter((section) => section.querySelector("tr, ol > li"));
    const label = Object.assign(document.createElement("label"), { className: "filter", textContent: "Show only what has these words" });
    const field = label.appendChild(Object.assign(document.createElement("input"), { type: "search" }));
    const count = Object.assign(document.createElement("output"), { className: "filter-count" });
    title.after(label, count);
    field.addEventListener("input", function () {
      const asked = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      items.forEach((item, i) => (item.hidden = !asked.every((word) => words[i].includes(word))));
      for (const section of sections) {
        const inside = items.filter((item) => section.contains(item));
        section.hidden = inside.length > 0 && inside.every((item) => item.hidden);
      }
      count.value = asked.length ? `${items.filter((item) => !item.hidden).length} of ${items.length}` : "";
    });
  });
})();
