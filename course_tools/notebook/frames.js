// Sliders over recorded frames: one image holds them all, one below the other, and each move shows another part of it.
for (const box of document.querySelectorAll(".course-frames:not(.ready)")) {
  box.classList.add("ready");
  const { controls, captions, image, width, height } = JSON.parse(box.querySelector("[type='application/json']").textContent);
  const at = controls.map((control) => control.start);
  const make = (tag, set) => Object.assign(document.createElement(tag), set);
  const view = make("div", { hidden: true });
  const words = make("em", {});
  const caption = make("p", { className: "course-caption", hidden: true });
  caption.setAttribute("aria-live", "polite");
  caption.append(words);

  function show() {
    const n = at.reduce((n, i, c) => n * controls[c].stops.length + i, 0);
    if (view.hidden) {
      const still = box.closest(".cell_output, .jp-Cell-outputArea, .jp-OutputArea")?.querySelectorAll("img, figcaption") ?? [];
      still.forEach((node) => box.contains(node) || (node.style.display = "none"));
      view.style.cssText = `width:${width}px; max-width:100%; aspect-ratio:${width}/${height}; background:#fff 0 0/100% auto`;
      view.style.backgroundImage = `url("${image}")`;
      view.setAttribute("role", "img");
      view.hidden = caption.hidden = false;
    }
    view.style.backgroundPosition = `0 ${(100 * n) / (captions.length - 1)}%`;
    words.innerHTML = captions[n];
    view.setAttribute("aria-label", words.textContent);
  }

  const rows = controls.map((control, c) => {
    const value = make("output", {});
    const slider = make("input", { type: "range", min: 0, max: control.stops.length - 1, step: 1, value: at[c] });
    const say = () => slider.setAttribute("aria-valuetext", (value.textContent = control.stops[at[c]]));
    slider.addEventListener("input", () => {
      at[c] = Number(slider.value);
      say();
      show();
    });
    say();
    const row = make("label", { style: "display:flex; gap:.6em; align-items:center; max-width:28em" });
    slider.style.cssText = "flex:1; min-width:0";
    row.append(control.name, slider, value);
    return row;
  });
  box.prepend(...rows, view, caption);
}
