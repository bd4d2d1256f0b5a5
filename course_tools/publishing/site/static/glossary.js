// The words of the glossary, explained where a section first uses them: by pointer, by keyboard, by a tap. The list is terms.js.
(function () {
  "use strict";
  const NOT_IN = "a, code, pre, .math, mjx-container, summary, figcaption, .claim, .doors, h1, h2, h3, h4, h5, h6, table";
  const tip = Object.assign(document.createElement("div"), { id: "term-says", className: "term-says", hidden: true });
  tip.setAttribute("role", "tooltip");
  let leaving;

  function show(link) {
    clearTimeout(leaving);
    tip.textContent = link.dataset.says;
    tip.hidden = false;
    document.querySelector(".term[aria-describedby]")?.removeAttribute("aria-describedby");
    link.setAttribute("aria-describedby", tip.id);
    const at = link.getClientRects()[0];
    tip.style.left = Math.max(8, Math.min(at.left, document.documentElement.clientWidth - tip.offsetWidth - 8)) + "px";
    const below = at.bottom + 6 + tip.offsetHeight <= window.innerHeight;
    tip.style.top = (below ? at.bottom + 6 : at.top - tip.offsetHeight - 6) + "px";
  }

  function hide() {
    clearTimeout(leaving);
    tip.hidden = true;
    document.querySelector(".term[aria-describedby]")?.removeAttribute("aria-describedby");
  }

  const leave = () => (leaving = setTimeout(hide, 250)); // time to move the pointer into the explanation

  function linked(text, [, says, address]) {
    const link = Object.assign(document.createElement("a"), { className: "term", href: address, textContent: text });
    link.dataset.says = says;
    ["mouseenter", "focus"].forEach((event) => link.addEventListener(event, () => show(link)));
    ["mouseleave", "blur"].forEach((event) => link.addEventListener(event, leave));
    link.addEventListener("click", (event) => {
      if (event.pointerType !== "touch" || link.dataset.tapped) return;
      event.preventDefault(); // the first tap explains, the second follows the link
      link.dataset.tapped = "true";
      show(link);
    });
    return link;
  }

  function explain(article, terms) {
    const known = new Map(terms.flatMap((term) => term[0].map((name) => [name.toLowerCase().replaceAll("-", " "), [name, term]])));
    const written = [...known.values()].map(([name]) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll("-", "[- ]"));
    const any = new RegExp("(?<![\\w-])(?:" + written.sort((a, b) => b.length - a.length).join("|") + ")(?![\\w-])", "gi");
    const here = location.pathname.split("/").pop();
    const seen = new Set();
    const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      if (parent.closest("p, li") && !parent.closest(NOT_IN)) texts.push(walker.currentNode);
    }
    for (const text of texts) {
      const section = text.parentElement.closest("section");
      const parts = [];
      let from = 0;
      for (const match of text.data.matchAll(any)) {
        const [name, term] = known.get(match[0].toLowerCase().replaceAll("-", " "));
        const plain = /^[A-Z]?[a-z]+$/.test(name); // one common word: once on a page is enough
        const key = (plain ? "" : section?.id) + " " + term[2];
        const acronym = /[A-Z].*[A-Z]/.test(name) && match[0] !== name;
        const begins = plain && /^[A-Z]/.test(match[0]) && /(^|[.:?!]\s+)$/.test(text.data.slice(0, match.index)); // "Recall that"
        if (acronym || begins || seen.has(key) || term[3] === here + "#" + section?.id) continue;
        seen.add(key);
        parts.push(text.data.slice(from, match.index), linked(match[0], term));
        from = match.index + match[0].length;
      }
      if (parts.length) text.replaceWith(...parts, text.data.slice(from));
    }
  }

  document.addEventListener("DOMContentLoaded", function () {
    const article = document.querySelector(".bd-article");
    if (!article || !window.COURSE_TERMS) return;
    explain(article, window.COURSE_TERMS);
    document.body.append(tip);
    tip.addEventListener("mouseenter", () => clearTimeout(leaving));
    tip.addEventListener("mouseleave", leave);
    document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
    document.addEventListener("scroll", () => document.querySelectorAll(".term[aria-describedby]:is(:hover, :focus)").forEach(show));
  });
})();
