// Typeset, narrow wide formulas, make every slide fit its 1280 × 720, then start reveal.js; with ?print lay the slides out as sheets.
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

  async function start() {
    const printing = location.search.includes("print");
    if (printing) document.querySelector('link[href$="reveal.css"]').remove(); // it would print an article in black
    await window.MathJax.startup.promise;
    document.querySelectorAll("img").forEach((image) => image.removeAttribute("loading"));
    await Promise.all([...document.images].map((image) => image.decode().catch(() => undefined)));
    document.body.classList.add("measuring");
    document.querySelectorAll(".slides > section").forEach(fit);
    document.body.classList.remove("measuring");
    if (printing) document.documentElement.classList.add("printing");
    else await Reveal.initialize({ width: 1280, height: 720, margin: 0.02, center: false, controls: false, hash: true, transition: "none", slideNumber: "c/t", plugins: [RevealNotes] });
    document.documentElement.dataset.ready = "true";
  }

  window.addEventListener("load", start);
})();
