// Make what scrolls sideways reachable by keyboard, and mark it. No request leaves this page.
(function () {
  "use strict";

  function mark(node, label) {
    const wide = node.scrollWidth > node.clientWidth + 1;
    node.classList.toggle("wide", wide);
    if (wide) {
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "region");
      node.setAttribute("aria-label", label);
    } else if (node.getAttribute("aria-label") === label) {
      ["tabindex", "role", "aria-label"].forEach((name) => node.removeAttribute(name));
    }
  }

  function markAll() {
    document.querySelectorAll("div.math").forEach((node, i) => mark(node, "Equation " + (i + 1) + ", scrolls sideways"));
    document.querySelectorAll(".table-scrolls").forEach((node, i) => mark(node, "Table " + (i + 1) + ", scrolls sideways"));
    document.querySelectorAll(".bd-article pre").forEach((node, i) => mark(node, "Code " + (i + 1) + ", scrolls sideways"));
  }

  function wrapTables() {
    document.querySelectorAll(".bd-article table").forEach((table) => {
      if (table.closest(".table-scrolls, .highlighttable")) return;
      const frame = document.createElement("div");
      frame.className = "table-scrolls";
      table.replaceWith(frame);
      frame.append(table);
    });
  }

  /** On a phone, fold cells of code that are longer than two screens. */
  function foldCode() {
    if (!window.matchMedia("(max-width: 576px)").matches) return;
    document.querySelectorAll(".bd-article .cell_input").forEach((cell) => {
      const lines = cell.textContent.trim().split("\n").length;
      if (lines <= 40 || cell.closest("details")) return;
      const fold = document.createElement("details"), head = document.createElement("summary");
      head.textContent = "Code, " + lines + " lines";
      cell.replaceWith(fold);
      fold.append(head, cell);
    });
  }

  function nameLists() {
    document.querySelectorAll("dt.sig dl").forEach((list) => {
      list.setAttribute("role", "list"); // Sphinx writes the arguments of a signature as a list of descriptions without terms
      list.querySelectorAll("dd").forEach((item) => item.setAttribute("role", "listitem"));
    });
  }

  function nameMenus() {
    document.querySelectorAll("summary:has(> .toctree-toggle)").forEach((node) => {
      const item = node.closest("li")?.querySelector("a");
      node.setAttribute("aria-label", "Pages below " + (item ? item.textContent.trim() : "this one"));
    });
  }

  /** Set the subscripts of symbols outside of code and formulas: d_k. */
  function setSubscripts() {
    const kept = "code, pre, script, style, textarea, mjx-container, .math", symbol = /\b([A-Za-z])_([a-z]|model|ff)\b/;
    for (const part of document.querySelectorAll(".bd-article, .bd-toc, .bd-links")) {
      const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT), found = [];
      while (walker.nextNode()) if (symbol.test(walker.currentNode.data) && !walker.currentNode.parentElement.closest(kept)) found.push(walker.currentNode);
      for (const text of found) {
        for (let rest = text, match; (match = symbol.exec(rest.data)); ) {
          const below = document.createElement("sub");
          below.textContent = match[2];
          rest = rest.splitText(match.index + 1);
          rest.data = rest.data.slice(1 + match[2].length);
          rest.before(below);
        }
      }
    }
  }

  function whenTypeset(then) {
    const ready = window.MathJax && window.MathJax.startup && window.MathJax.startup.promise;
    if (ready) ready.then(then);
    else then();
  }

  // Excerpts of what was found would be fetched, which a browser refuses for files.
  if (location.protocol === "file:" && typeof DOCUMENTATION_OPTIONS === "object") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

  // On paper nothing can be unfolded.
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll(".bd-article details:not([open])")];
    folded.forEach((node) => (node.open = true));
  });
  window.addEventListener("afterprint", () => folded.forEach((node) => (node.open = false)));

  /** Tell the microscope inside a page which theme the page has. */
  function shareTheme() {
    const theme = document.documentElement.dataset.theme;
    document.querySelectorAll('iframe[src*="microscope"]').forEach((frame) => frame.contentWindow.postMessage({ theme }, "*"));
  }

  new MutationObserver(shareTheme).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  document.addEventListener("load", (event) => { if (event.target.tagName === "IFRAME") shareTheme(); }, true);

  window.addEventListener("load", function () {
    wrapTables();
    foldCode();
    nameLists();
    nameMenus();
    whenTypeset(function () {
      setSubscripts();
      markAll();
      document.documentElement.dataset.ready = "true";
    });
    window.addEventListener("resize", markAll);
    document.addEventListener("toggle", markAll, true);
  });
})();
