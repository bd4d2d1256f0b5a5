// The page of the attention microscope: shows what transformer.js computes. Every sentence is made from the numbers of a run.
const models = loadModels(JSON.parse(document.getElementById("models").textContent));
const LETTERS = "abcdefghijklmnopqrstuvwxyz", PADDING = 26;
const letter = (token) => LETTERS[token] ?? "·";
const tokensOf = (text) => [...text].map((c) => LETTERS.indexOf(c));

const WORD = "token";
/** For each kind of model: its input as the model reads it, what its rows mean, and how well it does. */
const VIEWS = {
  reverse: {
    model: models.reverse, text: WORD, shortest: 1, longest: models.reverse.weights["positions.vectors"].length,
    label: "Type a word of up to 6 letters", mask: "Padding mask: hide empty places",
    read() { const word = tokensOf(this.text); return [...word, ...Array(this.longest - word.length).fill(PADDING)]; },
    tested: "the letters of new words",
    hidden: { name: "empty place", of: (input) => range(input.length).filter((j) => input[j] === PADDING) },
    nQueries(input) { return input.filter((token) => token !== PADDING).length; },
    keyName: (input, j) => (input[j] === PADDING ? `empty place ${j + 1}` : `${letter(input[j])} at ${j + 1}`),
    queryName: (input, i) => `output letter ${i + 1}`,
    output(input, run) { return run.logits.map((row, i) => (i < this.nQueries(input) ? letter(largest(row)) : "·")); },
    score(input, run) {
      const word = input.filter((token) => token !== PADDING).reverse();
      return { right: word.filter((token, i) => largest(run.logits[i]) === token).length, of: word.length, what: "letters right" };
    },
    patterns(input) {
      const n = this.nQueries(input);
      return { "the mirrored place": (i) => [n - 1 - i], "the same place": (i) => [i], "the last letter": () => [n - 1],
        "empty places": () => this.hidden.of(input) };
    },
    first: () => 0,
  },
  continue: {
    model: models.continue, text: "musiclionmusic", shortest: 2, longest: models.continue.weights["positions.vectors"].length,
    label: "Type a few words, and some of them twice", mask: "Causal mask: hide later letters",
    read() { return tokensOf(this.text); },
    tested: "repeated letters of new texts",
    hidden: { name: "later letter", of: (input, i) => range(input.length).filter((j) => j > i) },
    nQueries: (input) => input.length,
    keyName: (input, j) => `${letter(input[j])} at ${j + 1}`,
    queryName: (input, i) => `${letter(input[i])} at ${i + 1}`,
    output: (input, run) => run.logits.map((row) => letter(largest(row))),
    /** A letter can be known where the text has shown the same pair of letters before. */
    score(input, run) {
      const known = range(input.length - 1).filter((t) => range(t).some((s) => input[s] === input[t] && input[s + 1] === input[t + 1]));
      return { right: known.filter((t) => largest(run.logits[t]) === input[t + 1]).length, of: known.length, what: "repeated letters right" };
    },
    patterns(input) {
      return { "the letter itself": (i) => [i], "the letter before": (i) => (i ? [i - 1] : []), "the first letter": () => [0],
        "what followed an earlier copy": (i) => range(i + 1).filter((j) => j && input[j - 1] === input[i]),
        "an earlier copy": (i) => range(i).filter((j) => input[j] === input[i]) };
    },
    first: (input) => input.length - 1,
  },
  digit: {
    model: models.digit, pixels: null, label: "", mask: null,
    read() { return this.pixels; },
    tested: "new digits",
    nQueries: (input) => input.length + 1,
    keyName: (input, j) => (j ? `row ${Math.ceil(j / 8)} column ${((j - 1) % 8) + 1}` : "class token"),
    queryName(input, i) { return this.keyName(input, i); },
    output: (input, run) => [String(largest(run.logits[0]))],
    score: () => null,
    patterns(input) {
      const near = (i) => range(65).filter((j) => i && j && i !== j &&
        Math.abs(((i - 1) >> 3) - ((j - 1) >> 3)) < 2 && Math.abs(((i - 1) & 7) - ((j - 1) & 7)) < 2);
      return { "the pixel itself": (i) => [i], "the class token": () => [0], "its eight neighbours": near,
        "ink": () => range(65).filter((j) => j && input[j - 1] > 0.5), "paper": () => range(65).filter((j) => j && input[j - 1] <= 0.5) };
    },
    first: () => 0,
  },
};

/** `missing` is the part that the model was trained without, or null for the whole model. */
const state = { name: "reverse", layer: 0, head: 0, query: 0, paint: "choose", switches: asTrained(), missing: null, tour: 0 };
const view = () => VIEWS[state.name];
const trainedWithout = (part) => (part ? { ...view().model, ...view().model.without[part] } : view().model);
const compute = (switches = state.switches, missing = state.missing) => RUN[state.name](trainedWithout(missing), view().read(), switches);
const softmaxed = (logits) => softmax([...logits]);

/** The run as trained, and the runs without each part, switched off or never trained: computed once for an input. */
let known = {};
function baseline() {
  const key = state.name + view().read();
  if (known.key !== key) {
    const without = (part, missing) => compute({ ...asTrained(), [part]: false }, missing);
    const parts = Object.keys(view().model.without).map((part) => [part, { off: without(part, null), never: without(part, part) }]);
    known = { key, run: compute(asTrained(), null), parts: Object.fromEntries(parts) };
  }
  return known;
}

/** What a run answers, in a few words. */
function answerOf(run) {
  const input = view().read(), score = view().score(input, run);
  if (state.name === "digit") return `reads ${largest(run.logits[0])}, probability ${round(Math.max(...softmaxed(run.logits[0])))}`;
  const right = score.of ? `${score.right} of ${score.of} ${score.what}` : "nothing repeated yet";
  return state.name === "continue" ? `${right}, next letter ${letter(largest(run.logits.at(-1)))}` : right;
}

/** The same in numbers, to stand in a line. */
function shortly(run) {
  const input = view().read(), score = view().score(input, run);
  if (state.name === "digit") return `${largest(run.logits[0])} (${round(Math.max(...softmaxed(run.logits[0])))})`;
  const next = state.name === "continue" ? `, ${letter(largest(run.logits.at(-1)))}` : "";
  return `${score.right}/${score.of}${next}`;
}

/** The letters or the class that a run answers: those of the places that `score` counts, and the last. */
const answers = (run) => (state.name === "continue" ? answerOf(run) : view().output(view().read(), run).join(""));

/** Why the answer stays when a part is switched off, from the numbers of both runs. */
function why(part, before, after) {
  const input = view().read(), n = view().nQueries(input), heads = (run) => run.layers.flat();
  if (part === "mask") {
    if (!range(n).some((i) => view().hidden.of(input, i).length)) return `there is no ${view().hidden.name} to exclude`;
    const leaked = mean(heads(after).map(({ weights }) => mean(range(n).map((i) => sum(view().hidden.of(input, i).map((j) => weights[i][j]))))));
    return `a query gives ${round(leaked)} of its weight to ${view().hidden.name}s on average, too little to turn the answer`;
  }
  if (part === "scale") {
    const pairs = heads(before).flatMap((head, h) => range(n).map((i) => [head.weights[i], heads(after)[h].weights[i]]));
    const same = pairs.filter(([a, b]) => largest([...a]) === largest([...b])).length;
    const top = (which) => round(mean(pairs.map((pair) => Math.max(...pair[which]))));
    return `the largest weight grows from ${top(0)} to ${top(1)} on average, but stays at the same key for ${same} of ${pairs.length} queries`;
  }
  if (state.name !== "digit" && new Set(input.slice(0, n)).size === 1) return "equal letters have only one order";
  return `no output probability changes by more than ${round(change(before, after))}, and the largest stays the largest`;
}

/** The largest change of an output probability between two runs. */
const change = (a, b) => Math.max(...range(view().nQueries(view().read())).filter((i) => a.logits[i]).map((i) => {
  const p = softmaxed(a.logits[i]), q = softmaxed(b.logits[i]);
  return Math.max(...p.map((x, j) => Math.abs(x - q[j])));
}));

const switched = () => {
  const { switches } = state, off = Object.keys(view().model.without).filter((part) => !switches[part] && part !== state.missing).map((part) => `no ${part}`);
  for (const head of [...switches.off].sort()) off.push(`no head ${head.split(".").map((n) => Number(n) + 1).join(".")}`);
  if (Math.abs(switches.temperature - 1) > 1e-9) off.push(`temperature ${round(switches.temperature)}`);
  return off;
};

function drawAnswer(run) {
  const input = view().read(), output = view().output(input, run), box = byId("answer");
  box.replaceChildren();
  if (state.name === "reverse") {
    box.append(`${view().text} → `, make("b", {}, output.slice(0, view().nQueries(input)).join("")), " ");
  } else if (state.name === "continue") {
    const p = softmaxed(run.logits.at(-1));
    box.append("next letter ", make("b", {}, letter(largest(p))), ` with probability ${round(Math.max(...p))} `);
  } else {
    const p = softmaxed(run.logits[0]);
    const meant = view().model.examples.findIndex((example) => pixelsOf(example).every((ink, i) => ink === input[i]));
    box.append("It reads a ", make("b", {}, String(largest(p))), ` with probability ${round(Math.max(...p))}`);
    if (meant >= 0) box.append("; written was ", make("span", { class: meant === largest(p) ? "good" : "bad" }, `a ${meant}`));
  }
  const score = view().score(input, run);
  if (score && score.of) box.append(make("span", { class: score.right === score.of ? "good" : "bad" }, `${score.right} of ${score.of} ${score.what}`));
  else if (score) box.append("nothing repeated yet");
}

/** Two rows of tokens, keys above and queries below, joined by their weights. */
function drawTokens(run) {
  const input = view().read(), { weights } = run.layers[state.layer][state.head], T = input.length, n = view().nQueries(input);
  const width = Math.max(280, byId("drawing").clientWidth || 320), pitch = Math.min(96, width / T), left = (width - pitch * T) / 2;
  const top = 44, bottom = Math.min(270, 120 + width / 6), output = view().output(input, run);
  const legend = make("p", { class: "legend" }, `Layer ${state.layer + 1}, head ${state.head + 1} (one of ${run.layers.flat().length}). Thicker = more weight; orange = chosen output`);
  const x = (t) => left + (t + 0.5) * pitch, size = Math.min(40, pitch - 3);
  const svg = make("svg", { viewBox: `0 0 ${width} ${bottom + 48}`, role: "img", class: pitch < 24 ? "many" : "" });
  svg.append(make("title", {}, `Attention of layer ${state.layer + 1}, head ${state.head + 1}: lines from each query to its keys`));
  svg.append(make("text", { class: "side", x: 0, y: 14 }, "keys and values: what is read"));
  svg.append(make("text", { class: "side", x: 0, y: bottom + 42 }, state.name === "reverse" ? "queries: what is written (tap one)" : "queries: the letter predicted after each (tap one)"));
  const order = range(n).filter((i) => i !== state.query).concat(state.query);
  for (const i of order) {
    range(T).forEach((j) => {
      const w = weights[i][j];
      if (w < 0.02) return;
      const chosen = i === state.query, middle = (top + bottom) / 2;
      svg.append(make("path", {
        d: `M${x(i)} ${bottom - size / 2}C${x(i)} ${middle} ${x(j)} ${middle} ${x(j)} ${top + size / 2}`, fill: "none", "stroke-linecap": "round",
        stroke: `rgba(var(${chosen ? "--warm-rgb" : "--cool-rgb"}),${chosen ? 0.4 + 0.6 * w : Math.min(0.7, 0.35 + 2 * w)})`, "stroke-width": 0.9 + (chosen ? 6.6 : 2.6) * w,
      }));
    });
  }
  const token = (t, y, text, faint) => [make("rect", { class: "box", x: x(t) - size / 2, y: y - size / 2, width: size, height: size, rx: Math.min(8, size / 3) }),
    make("text", { class: faint ? "token faint" : "token", x: x(t), y: y + 1 }, text)];
  range(T).forEach((t) => {
    svg.append(...token(t, top, letter(input[t]), input[t] === PADDING), ...token(t, bottom, output[t], t >= n));
    const heavy = weights[state.query][t];
    svg.append(make("rect", { class: "chosen", "stroke-opacity": heavy, x: x(t) - size / 2, y: top - size / 2, width: size, height: size, rx: Math.min(8, size / 3) }));
    if (t < n) svg.append(make("rect", { class: "column", x: x(t) - pitch / 2, y: 20, width: pitch, height: bottom + 8, click: () => choose(t) }));
  });
  svg.append(make("rect", { class: "chosen", x: x(state.query) - size / 2, y: bottom - size / 2, width: size, height: size, rx: Math.min(8, size / 3) }));
  byId("drawing").replaceChildren(legend, svg);
}

function pixelAt(event) {
  const box = document.querySelector(".image").getBoundingClientRect(), cell = (v) => Math.min(7, Math.max(0, Math.floor(v * 8)));
  return cell((event.clientY - box.top) / box.height) * 8 + cell((event.clientX - box.left) / box.width);
}

function paint(event) {
  const ink = state.paint === "draw" ? 1 : 0, p = pixelAt(event);
  if (view().pixels[p] !== ink) { view().pixels[p] = ink; show(); }
}

/** The image with the weights of the query over its pixels, and the ten classes. */
function drawDigit(run) {
  const input = view().read(), row = run.layers[state.layer][state.head].weights[state.query], most = Math.max(...row.slice(1));
  const svg = make("svg", { class: "image", viewBox: "0 0 160 160", role: "img" });
  svg.append(make("title", {}, `A digit of 8 by 8 pixels. Rings show the weights of the query ${view().queryName(input, state.query)}; the largest is ${round(most)}.`));
  input.forEach((ink, p) => {
    const X = (p % 8) * 20, Y = (p >> 3) * 20, side = 17 * Math.sqrt(row[p + 1] / most);
    svg.append(make("rect", { x: X, y: Y, width: 20, height: 20, fill: `color-mix(in srgb, var(--ink) ${Math.round(ink * 100)}%, var(--zero))` }));
    if (side > 1.5) svg.append(make("rect", { x: X + 10 - side / 2, y: Y + 10 - side / 2, width: side, height: side, fill: "rgb(var(--warm-rgb))", "fill-opacity": 0.3 + 0.6 * (row[p + 1] / most), rx: 3 }));
    if (p + 1 === state.query) svg.append(make("rect", { x: X + 1.5, y: Y + 1.5, width: 17, height: 17, fill: "none", stroke: "rgb(var(--cool-rgb))", "stroke-width": 3 }));
  });
  svg.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    if (state.paint === "choose") { choose(pixelAt(event) + 1); return; }
    paint(event);
    window.addEventListener("pointermove", paint);
    window.addEventListener("pointerup", () => window.removeEventListener("pointermove", paint), { once: true });
  });
  const p = softmaxed(run.logits[0]);
  const classes = make("ol", { class: "classes", "aria-label": "Probability of each digit" }, ...p.map((value, digit) =>
    make("li", {}, make("span", {}, String(digit)), make("span", { class: "bar", style: `width:${100 * value}%` }), make("span", {}, round(value)))));
  byId("drawing").replaceChildren(make("div", { class: "digits" }, svg, classes));
}

function drawReads(run) {
  const input = view().read(), row = [...run.layers[state.layer][state.head].weights[state.query]];
  const best = largest(row), bits = -sum(row.map((w) => (w > 0 ? w * Math.log2(w) : 0)));
  byId("query").max = view().nQueries(input) - 1;
  byId("query").value = state.query;
  byId("query-name").value = view().queryName(input, state.query);
  byId("query").setAttribute("aria-valuetext", view().queryName(input, state.query));
  byId("reads").textContent = `Layer ${state.layer + 1}, head ${state.head + 1}: ${view().queryName(input, state.query)} gives ` +
    `${round(row[best])} of its weight to ${view().keyName(input, best)}. Its weights have an entropy of ${round(bits)} bits.`;
}

function drawSwitches(run) {
  const { run: before, parts } = baseline(), d = before.layers[0][0].q[0].length;
  const labels = { scale: `Scale: divide the scores by √${d}`, mask: view().mask, positions: "Positions: a vector for each place" };
  byId("switches").replaceChildren(...Object.entries(parts).map(([part, { off, never }]) => {
    const box = make("input", { type: "checkbox", id: `switch-${part}`, change: (event) => set(part, event.target.checked, null, box.id) });
    box.checked = state.switches[part];
    const same = answers(off) === answers(before);
    const button = make("button", { id: `never-${part}`, "aria-pressed": String(state.missing === part),
      "aria-label": `Show the model trained without ${part}: ${shortly(never)}`, click: () => set(part, state.missing === part, state.missing === part ? null : part, button.id) },
      `Show the model trained without it: ${shortly(never)}`);
    return make("li", { id: `item-${part}` }, make("label", {}, box, make("span", {}, labels[part])),
      make("small", {}, `Off: ${same ? `nothing changes, because ${why(part, before, off)}` : shortly(off)}. `, button));
  }));
  byId("temperature").value = Math.log2(state.switches.temperature);
  byId("temperature-value").value = round(state.switches.temperature);
  byId("temperature").setAttribute("aria-valuetext", round(state.switches.temperature));
  const off = switched(), never = state.missing && `Trained without ${state.missing}`;
  const how = [never, off.length && `${never ? "with" : "With"} ${off.join(", ")}`].filter(Boolean).join(", ");
  byId("effect").textContent = `As trained: ${answerOf(before)}. ` + (how
    ? `${how}: ${answerOf(run)}. The largest change of an output probability is ${round(change(before, run))}.`
    : "");
  byId("reset").disabled = !how;
  drawCurve();
}

/** Switch a part on or off, or take the model that was trained without it (`missing`). */
function set(part, on, missing, focus) {
  const { switches } = state;
  if (state.missing && state.missing !== part) switches[state.missing] = true;
  switches[part] = on;
  state.missing = missing;
  show();
  byId(focus).focus();
}

/** The losses of the whole model and of the one that was trained without a part, from the first update to the last. */
function drawCurve() {
  byId("curve").hidden = !state.missing;
  if (!state.missing) return;
  const { losses, accuracy } = view().model, { losses: never, accuracy: reached } = trainedWithout(state.missing), most = Math.max(...losses, ...never);
  const line = (list, color) => make("polyline", { points: list.map((loss, i) => `${(300 * i) / (list.length - 1)},${4 + 88 * (1 - loss / most)}`).join(" "),
    fill: "none", stroke: `rgb(var(--${color}-rgb))`, "stroke-width": 2.5 });
  const text = `Loss in training, from ${round(most)} to 0: at the end ${round(losses.at(-1))} whole, ${round(never.at(-1))} without ${state.missing}. ` +
    `On new examples ${round(100 * accuracy, 1)} % are right whole, ${round(100 * reached, 1)} % without.`;
  byId("curve").replaceChildren(make("svg", { viewBox: "0 0 300 96", role: "img", "aria-label": text }, line(losses, "cool"), line(never, "warm")),
    make("p", {}, text), make("p", { class: "key" }, make("span", { class: "cool" }, "whole"), " ", make("span", { class: "warm" }, `without ${state.missing}`)));
}

/** Where a head puts more of its weight than even weights would, among the named patterns: [name, share, even share]. */
function habit({ scores, weights }) {
  const input = view().read(), n = view().nQueries(input), open = scores.map((row) => row.filter((score) => score > -Infinity).length);
  const found = Object.entries(view().patterns(input)).map(([name, keys]) => {
    const asked = range(n).filter((i) => keys(i).length);
    if (!asked.length) return [name, 0, 0];
    return [name, mean(asked.map((i) => sum(keys(i).map((j) => weights[i][j])))), mean(asked.map((i) => keys(i).length / open[i]))];
  });
  return found.reduce((a, b) => (b[1] - b[2] > a[1] - a[2] ? b : a));
}

/** Whether a head of the second layer reads what followed an earlier copy, and one of the first the letter before. */
const induces = (layers) => state.name === "continue" && ["the letter before", "what followed an earlier copy"].every((name, l) =>
  layers[l].some((head) => { const [found, share] = habit(head); return found === name && share > 0.5; }));

/** A picture of weights, one pixel each, stronger for larger ones. */
function thumbnail(rows) {
  const canvas = make("canvas", { width: rows[0].length, height: rows.length, "aria-hidden": "true" });
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  const warm = getComputedStyle(document.documentElement).getPropertyValue("--warm-rgb").split(",").map(Number);
  rows.forEach((row, i) => [...row].forEach((w, j) => image.data.set([...warm, 24 + 231 * Math.sqrt(w)], 4 * (i * canvas.width + j))));
  context.putImageData(image, 0, 0);
  return canvas;
}

function drawHeads(run) {
  const pixels = state.name === "digit", n = view().nQueries(view().read());
  byId("heads-note").textContent = (pixels ? "Each map shows the weights of the query over the image, the largest as the strongest."
    : "Each map has a row for every query and a column for every key.") + " Below it: where the head puts more weight than if it were spread evenly, on average over the queries." + (induces(run.layers) ? " Together they are an induction head: the first " +
    "writes into each place the letter before it, the second looks for the places at which this is the letter of the query." : "");
  byId("heads").replaceChildren(...run.layers.flatMap((heads, l) => heads.map((head, h) => {
    const { weights } = head, row = weights[state.query], most = Math.max(...row);
    const rows = pixels ? range(8).map((y) => range(8).map((x) => row[1 + 8 * y + x] / most)) : weights.slice(0, n);
    const chosen = l === state.layer && h === state.head, [name, share, even] = habit(head), id = `${l}.${h}`;
    const off = make("input", { type: "checkbox", id: `head-${id}`, change: (event) => { state.switches.off[event.target.checked ? "delete" : "add"](id); show(); byId(`head-${id}`).focus(); } });
    off.checked = !state.switches.off.has(id);
    const button = make("button", { id: `show-${id}`, "aria-pressed": String(chosen), "aria-label": `Show layer ${l + 1}, head ${h + 1}`,
      click: () => { Object.assign(state, { layer: l, head: h }); show(); byId(`show-${id}`).focus(); } }, thumbnail(rows));
    return make("div", { class: "head" }, button, make("label", {}, off, ` layer ${l + 1}, head ${h + 1}`), make("div", {}, `${name}: ${round(share)} of the weight (even: ${round(even)})`));
  })));
}

const SHOWN_KEYS = 12;
function drawTable(run) {
  const input = view().read(), { q, k, v, scores, weights, context } = run.layers[state.layer][state.head], i = state.query;
  const most = (rows) => Math.max(...rows.map((row) => Math.max(...row.map(Math.abs)))), [mostK, mostV] = [most([...k, q[i]]), most(v)];
  const keys = range(k.length).sort((a, b) => weights[i][b] - weights[i][a]).slice(0, k.length > 24 ? SHOWN_KEYS : k.length).sort((a, b) => a - b);
  const best = largest([...weights[i]]), scale = state.switches.scale ? ` / √${q[0].length}` : "";
  const tau = state.switches.temperature === 1 ? "" : ` / ${round(state.switches.temperature)}`;
  byId("formula").replaceChildren(...[["query q ", cells(q[i], mostK)], [`score = q · k${scale}, weight = softmax(score${tau})`], ["context Σ weight · v ", cells(context[i], mostV)]]
    .map((line) => make("span", {}, ...line)));
  const row = (j) => make("tr", { class: j === best ? "best" : "" }, make("th", { scope: "row" }, view().keyName(input, j)), make("td", {}, cells(k[j], mostK)),
    scores[i][j] === -Infinity ? make("td", { class: "masked" }, "masked") : make("td", {}, round(scores[i][j])),
    make("td", {}, make("span", { class: "weight" }, round(weights[i][j]), make("span", { class: "bar", style: `width:${100 * weights[i][j]}%` }))),
    make("td", {}, cells(v[j], mostV)));
  byId("table").replaceChildren(make("table", {},
    make("caption", {}, keys.length < k.length ? `The ${keys.length} keys of the largest weights, of ${k.length}` : `All ${k.length} keys`),
    make("thead", {}, make("tr", {}, ...["key", "k", "score", "weight", "v"].map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...keys.map(row))));
}

/** What is wrong with a text that a view cannot read, or "". */
function refusal(text) {
  const { shortest, longest } = view(), strange = [...new Set(text)].filter((c) => !LETTERS.includes(c));
  if (strange.length) return `The model knows the letters a to z only, not ${strange.map((c) => `“${c}”`).join(", ")}.`;
  if (text.length > longest) return `${text.length} letters are too many: the model has ${longest} positions.`;
  return text.length < shortest ? `Type at least ${shortest === 1 ? "one letter" : `${shortest} letters`}.` : "";
}

function typed(field) {
  const text = field.value.toLowerCase().replace(/\s/g, ""), problem = refusal(text);
  field.setAttribute("aria-invalid", String(Boolean(problem)));
  byId("problem").textContent = problem && `${problem} Still showing “${view().text}”.`;
  if (!problem) { view().text = text; choose(view().first(view().read())); }
}

function drawInput() {
  const box = byId("input");
  byId("problem").textContent = "";
  if (state.name !== "digit") {
    const field = make("input", { type: "text", id: "text", autocomplete: "off", spellcheck: "false", autocapitalize: "none", "aria-describedby": "problem",
      input: () => typed(field) });
    field.value = view().text;
    const more = make("button", { click: () => {
      const next = letter(largest(compute().logits.at(-1)));
      view().text = (view().text + next).slice(-view().longest);
      drawInput();
      choose(view().first(view().read()));
    } }, "Write the next letter");
    box.replaceChildren(make("label", {}, view().label, field), ...(state.name === "continue" ? [more] : []));
    return;
  }
  const examples = make("fieldset", {}, make("legend", {}, "A handwritten digit"), ...view().model.examples.map((example, digit) =>
    make("button", { class: "digit", click: () => { view().pixels = pixelsOf(example); show(); } }, String(digit))));
  const how = make("fieldset", {}, make("legend", {}, "Tap the image to"), ...[["choose", "choose a query"], ["draw", "draw"], ["erase", "erase"]].map(([name, label]) =>
    make("button", { "aria-pressed": String(state.paint === name), click: (event) => { state.paint = name; drawInput(); } }, label)),
    make("button", { click: () => { if (state.query) { const p = state.query - 1; view().pixels[p] = view().pixels[p] > 0.5 ? 0 : 1; show(); } } }, "Invert the query pixel"));
  box.replaceChildren(examples, how);
}
const pixelsOf = (example) => [...example].map((c) => parseInt(c, 17) / 16);

function show() {
  const run = compute();
  drawAnswer(run);
  (state.name === "digit" ? drawDigit : drawTokens)(run);
  drawReads(run); drawSwitches(run); drawHeads(run); drawTable(run);
  writeAddress();
}

function choose(query) { state.query = Math.min(Math.max(query, 0), view().nQueries(view().read()) - 1); show(); }

/** The layer and head whose habit is the most pronounced; of a text or a digit, in the last layer. */
function mostTelling({ layers }) {
  const first = state.name === "reverse" ? 0 : layers.length - 1;
  const excess = layers.slice(first).flat().map((head) => { const [, share, even] = habit(head); return share - even; });
  const best = largest(excess), { n_heads } = view().model;
  return [first + Math.floor(best / n_heads), best % n_heads];
}

function open(name) {
  Object.assign(state, { name, layer: 0, head: 0, query: 0, switches: asTrained(), missing: null });
  [state.layer, state.head] = mostTelling(compute());
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const selected = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
  }
  byId("view").setAttribute("aria-labelledby", `tab-${name}`);
  const n = sum(Object.values(view().model.weights).map((W) => (W[0].length ? sum(W.map((row) => row.length)) : W.length)));
  byId("about").textContent = `${n.toLocaleString("en")} parameters, each stored as one character; ${round(100 * view().model.accuracy, 1)} % right on ${view().tested}. ` +
    (name === "digit" ? "Digits: Alpaydin and Kaynak 1998, UCI, CC BY 4.0." : "");
  drawInput();
  choose(view().first(view().read()));
}

/** Steps of the tour: what is highlighted, one sentence, and what is switched before it is shown. */
const now = () => answerOf(compute());
/** How many queries give an empty place their largest weight, in the head that is shown. */
const emptied = () => {
  const input = view().read(), { weights } = compute().layers[state.layer][state.head];
  return range(view().nQueries(input)).filter((i) => input[largest([...weights[i]])] === PADDING).length;
};
const TOUR = [
  ["input", () => `The model reads a word of up to ${view().longest} letters and fills the rest with empty places; type another word at any time.`],
  ["answer", () => `It writes the word backwards: ${now()}.`],
  ["drawing", () => "Each line is an attention weight, from a query below to a key above: the thicker, the larger."],
  ["query-label", () => `This slider chooses a query; query ${state.query + 1} is shown, and the sentence below it names the key with the largest weight.`, () => { state.query = view().nQueries(view().read()) - 1; }],
  ["item-mask", () => `The padding mask is off: ${emptied()} of ${view().nQueries(view().read())} lines lead to the empty place now, which holds no letter. ${now()}.`, () => { state.switches.mask = false; }],
  ["curve", () => `Trained without the mask, the model learns to do without it: ${now()}.`, () => { state.switches.mask = false; state.missing = "mask"; }],
  ["heads", () => "Each map shows the weights of a head, a row for each query; choose one to see it above, or switch it off."],
  ["steps", () => "Here stand the numbers of the query: the score of each key, its weight by the softmax, and the value that it contributes."],
];

function tourTo(step) {
  history.scrollRestoration = step ? "manual" : "auto";  // a step scrolls to its part; a reload must not scroll back
  state.tour = step;
  for (const element of document.querySelectorAll(".toured")) element.classList.remove("toured");
  byId("tour").hidden = !step;
  if (!step) { writeAddress(); byId("start-tour").focus(); return; }
  const [target, sentence, prepare = () => {}] = TOUR[step - 1];
  VIEWS.reverse.text = WORD;
  open("reverse");
  prepare();
  show();
  byId("tour-title").textContent = `Step ${step} of ${TOUR.length}`;
  byId("tour-text").textContent = sentence();
  byId("tour-back").disabled = step === 1;
  byId("tour-next").textContent = step < TOUR.length ? "Next" : "Finish";
  byId(target).classList.add("toured");
  const phone = matchMedia("(max-width: 820px)").matches;
  byId(phone && target === "item-mask" ? "drawing" : target).scrollIntoView({ block: phone ? "start" : "center" });
  byId("tour-next").focus({ preventScroll: true });
}

/** The view as the part of the address after #: what differs from the first view of its model. */
function addressOf() {
  const { name, layer, head, query, switches, missing, tour } = state, asked = new URLSearchParams();
  if (tour) return `tour&step=${tour}`;
  if (name !== "digit") asked.set("text", view().text);
  else asked.set("pixels", view().pixels.map((ink) => Math.round(ink * 16).toString(17)).join(""));
  asked.set("show", [layer, head, query].map((n) => n + 1).join("."));
  const off = Object.keys(view().model.without).filter((part) => !switches[part]);
  if (off.length) asked.set("off", off.join("."));
  if (missing) asked.set("without", missing);
  if (switches.off.size) asked.set("heads", [...switches.off].sort().join("-"));
  if (switches.temperature !== 1) asked.set("temperature", round(switches.temperature, 3));
  return `${name}&${asked}`;
}

function writeAddress() {
  byId("share").href = `#${addressOf()}`;
  if (location.protocol !== "about:") history.replaceState(null, "", byId("share").href);
}

/** Open what an address asks for; what it does not say, or says wrongly, stays as in the first view. */
function readAddress() {
  const [name, ...rest] = location.hash.slice(1).split("&"), asked = new URLSearchParams(rest.join("&"));
  if (name === "tour") { tourTo(Math.min(Math.max(Math.trunc(asked.get("step")) || 1, 1), TOUR.length)); return; }
  state.name = names.includes(name) ? name : document.documentElement.dataset.view;
  const text = asked.get("text")?.toLowerCase() ?? "", pixels = asked.get("pixels") ?? "", { model } = view();
  if (state.name !== "digit" && text && !refusal(text)) view().text = text;
  if (state.name === "digit" && /^[0-9a-g]{64}$/.test(pixels)) view().pixels = pixelsOf(pixels);
  open(state.name);
  if (text && state.name !== "digit" && refusal(text)) { byId("text").value = text; typed(byId("text")); }
  for (const part of (asked.get("off") ?? "").split(".")) if (part in model.without) state.switches[part] = false;
  if (asked.get("without") in model.without) { state.missing = asked.get("without"); state.switches[state.missing] = false; }
  const { layers } = compute(), exists = (l, h) => layers[l]?.[h] !== undefined;
  for (const id of (asked.get("heads") ?? "").split("-")) if (exists(...id.split("."))) state.switches.off.add(id);
  const temperature = Number(asked.get("temperature"));
  if (temperature >= 0.25 && temperature <= 8) state.switches.temperature = temperature;
  const [layer, head, query] = (asked.get("show") ?? "").split(".").map((n) => Number(n) - 1);
  if (exists(layer, head)) Object.assign(state, { layer, head });
  choose(Number.isInteger(query) && query >= 0 ? query : state.query);
}

VIEWS.digit.pixels = pixelsOf(models.digit.examples[6]);
const names = Object.keys(VIEWS);
for (const name of names) {
  byId(`tab-${name}`).addEventListener("click", () => { open(name); });
  byId(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(name) + step + names.length) % names.length];
    open(next);
    byId(`tab-${next}`).focus();
  });
}
byId("query").addEventListener("input", (event) => choose(Number(event.target.value)));
byId("temperature").addEventListener("input", (event) => { state.switches.temperature = Math.abs(event.target.value) < 0.04 ? 1 : 2 ** event.target.value; show(); });
byId("reset").addEventListener("click", () => { Object.assign(state, { switches: asTrained(), missing: null }); show(); });
byId("start-tour").addEventListener("click", () => tourTo(1));
byId("tour-back").addEventListener("click", () => tourTo(state.tour - 1));
byId("tour-next").addEventListener("click", () => tourTo((state.tour + 1) % (TOUR.length + 1)));
byId("tour-end").addEventListener("click", () => tourTo(0));
byId("tour").addEventListener("keydown", (event) => { if (event.key === "Escape") tourTo(0); });
window.addEventListener("hashchange", readAddress);
let drawnWidth = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (state.name !== "digit" && contentRect.width !== drawnWidth) drawTokens(compute());
  drawnWidth = contentRect.width;
}).observe(byId("drawing"));

followTheme(show);
readAddress();
