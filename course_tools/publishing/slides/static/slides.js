// Typeset, narrow wide formulas, make every slide fit its 1280 × 720, then start reveal.js; with ?print lay the slides out as sheets,
// on a phone one below the other, in letters to read, each answer folded.
(function () {
  "use strict";
  const SMALLEST = 0.5, LEAST_ROOM = 0.75;

  function overflows(section) {
    const body = section.querySelector(".body");
    const inner = [body, ...body.querySelectorAll("pre, table, .options, mjx-container, figcaption")];
    return section.scrollHeight > section.clientHeight || inner.some((node) =>
      node.scrollHeight > node.clientHeight + 2 && node === body || node.getBoundingClientRect().right > section.getBoundingClientRect().right - 60);
  }

  function narrow(section) {
    const room = section.querySelector(".body").clientWidth;
    const ratios = [...section.querySelectorAll(".body mjx-container > mjx-math")].map((formula) => {
      let ratio = 1;
      // a browser rounds sizes, so that one step may not be enough
      for (let step = 0; step < 3 && formula.getBoundingClientRect().width > room; step++) {
        ratio *= room / formula.getBoundingClientRect().width;
        formula.parentElement.style.fontSize = 100 * ratio + "%";
      }
      return ratio;
    });
    return Math.min(1, ...ratios);
  }

  function fit(section) {
    const formulas = narrow(section);
    let scale = 1;
    for (let room = 1; overflows(section) && room > LEAST_ROOM; room -= 0.02) section.style.setProperty("--room", room.toFixed(2)); // figures first
    while (overflows(section) && scale > SMALLEST) {
      scale -= 0.05;
      section.style.setProperty("--fit", scale.toFixed(2));
    }
    section.dataset.fit = Math.min(scale, formulas).toFixed(2);
  }

  /** Fold an answer, which stands on one screen with its question. */
  function fold(body) {
    const details = document.createElement("details"), summary = document.createElement("summary");
    summary.textContent = "Show the answer";
    details.append(summary, ...body.childNodes);
    body.append(details);
  }

  /** Show the slide of the address, and in the address the slide that is shown. */
  function read() {
    const sections = [...document.querySelectorAll(".slides > section")], asked = Number(location.hash.slice(2)) || 0;
    sections.forEach((section, i) => { section.dataset.page = `${i + 1} / ${sections.length}`; });
    sections[Math.min(asked, sections.length - 1)].scrollIntoView();
    const seen = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) =>
      history.replaceState(null, "", `#/${sections.indexOf(target)}`)), { rootMargin: "-20% 0px -80% 0px" });
    sections.forEach((section) => seen.observe(section));
  }

  async function start() {
    const printing = location.search.includes("print"), narrowest = matchMedia("(max-width: 600px)"), reading = !printing && narrowest.matches;
    if (printing || reading) document.querySelector('link[href$="reveal.css"]').remove(); // it would print an article in black
    if (!printing) narrowest.addEventListener("change", () => location.reload());
    document.documentElement.classList.toggle("reading", reading);
    await window.MathJax.startup.promise;
    document.querySelectorAll("img").forEach((image) => image.removeAttribute("loading"));
    await Promise.all([...document.images].map((image) => image.decode().catch(() => undefined)));
    if (reading) {
      document.querySelectorAll(".slides > section").forEach(narrow);
      document.querySelectorAll(".slides > section.answer > .body").forEach(fold);
      read();
      document.documentElement.dataset.ready = "true";
      return;
    }
    document.body.classList.add("measuring");
    document.querySelectorAll(".slides > section").forEach(fit);
    document.body.classList.remove("measuring");
    if (printing) document.documentElement.classList.add("printing");
    else await Reveal.initialize({ width: 1280, height: 720, margin: 0.02, center: false, controls: false, hash: true, transition: "none", slideNumber: "c/t", plugins: [RevealNotes] });
    document.documentElement.dataset.ready = "true";
  }

  window.addEventListener("load", start);
})();
