// Object queries: a small trained set predictor, its boxes, and their matching with the objects of a scene (lecture 12).
// It is `SetPredictor` of course_tools/lectures/lecture_12/microscope_room.py.
const models = JSON.parse(byId("models").textContent);
const SIDE = 16, PATCH = 2, N = 8, MOST = 4, SMALLEST = 2, LARGEST = 7, N_HEADS = 2, N_LAYERS = 2;
const both = (name) => [`${name}.weight`, `${name}.bias`];
const attention = (name) => ["q", "k", "v", "o"].flatMap((part) => both(`${name}.W_${part}`));
/** The names of a model's weights, in the order in which they are stored. */
const namesOf = (talk) => ["rows", "columns", "queries", ...both("project"), ...range(N_LAYERS).flatMap((l) => [...(talk ? attention(`${l}.own`) : []), ...attention(`${l}.cross`),
  ...["W_1", "W_2", "norm_1", "norm_2", "norm_3"].flatMap((part) => both(`${l}.${part}`))]), ...["classify", "box.0", "box.2"].flatMap(both)];
for (const [name, model] of Object.entries(models)) {
  const stored = model.weights;
  model.weights = Object.fromEntries(namesOf(name === "talk").map((key, i) => {
    const [[n, width], scale, characters] = stored[i], all = unpack({ shape: [], scales: [scale], characters });
    return [key, width ? range(n).map((row) => all.subarray(row * width, (row + 1) * width)) : all];
  }));
}

/** The pixels of a scene: a channel for each kind. */
const paint = (objects) => range(2).map((kind) => range(SIDE).map((y) => range(SIDE).map((x) =>
  Number(objects.some((each) => each.kind === kind && x >= each.x && x < each.x + each.w && y >= each.y && y < each.y + each.h)))));

/** Logits and boxes of all queries after the last layer, and in each layer the mean weights of its heads among the queries. */
function predict(name, pixels, talk = true) {
  const { weights } = models[name], linearly = (rows, part) => linear(rows, weights[`${part}.weight`], weights[`${part}.bias`]);
  const plus = (a, b) => a.map((row, i) => add(row, b[i])), cellsAt = range(SIDE / PATCH), own = [];
  const normed = (rows, part) => layerNorm(rows, weights[`${part}.weight`], weights[`${part}.bias`], 1e-5);
  const attend = (part, asks, keys, values) => {
    const [q, k, v] = [asks, keys, values].map((rows, i) => linearly(rows, `${part}.W_${"qkv"[i]}`)), size = q[0].length / N_HEADS;
    const shares = range(N_HEADS).map((h) => q.map((query) => softmax(k.map((key) => sum(range(size).map((d) => query[h * size + d] * key[h * size + d])) / Math.sqrt(size)))));
    const context = q.map((_, i) => Float64Array.from({ length: N_HEADS * size }, (__, d) => sum(v.map((value, j) => shares[Math.floor(d / size)][i][j] * value[d]))));
    return { out: linearly(context, `${part}.W_o`), shares };
  };
  const inks = cellsAt.flatMap((row) => cellsAt.map((column) => pixels.flatMap((channel) => range(PATCH).flatMap((y) => range(PATCH).map((x) => channel[row * PATCH + y][column * PATCH + x])))));
  const cells = linearly(inks, "project").map((ink, i) => add(add(ink, weights.rows[Math.floor(i / cellsAt.length)]), weights.columns[i % cellsAt.length]));
  let x = range(N).map(() => new Float64Array(cells[0].length));
  for (const l of range(N_LAYERS)) {
    if (name === "talk" && talk) {
      const asks = plus(x, weights.queries), { out, shares } = attend(`${l}.own`, asks, asks, x);
      own.push(range(N).map((i) => range(N).map((j) => mean(shares.map((head) => head[i][j])))));
      x = plus(x, out);
    }
    x = normed(x, `${l}.norm_1`);
    x = normed(plus(x, attend(`${l}.cross`, plus(x, weights.queries), cells, cells).out), `${l}.norm_2`);
    x = normed(plus(x, linearly(linearly(x, `${l}.W_1`).map((row) => row.map((y) => Math.max(0, y))), `${l}.W_2`)), `${l}.norm_3`);
  }
  const boxes = linearly(linearly(x, "box.0").map((row) => row.map((y) => Math.max(0, y))), "box.2").map((row) => [...row].map((y) => 1 / (1 + Math.exp(-y))));
  return { logits: linearly(x, "classify").map((row) => [...row]), boxes, own };
}

const boxOf = ({ x, y, w, h }) => [x + w / 2, y + h / 2, w, h].map((z) => z / SIDE);  // centre and size
const corners = ([x, y, w, h]) => [x - w / 2, y - h / 2, x + w / 2, y + h / 2];
function overlaps(a, b) {
  const [p, q] = [corners(a), corners(b)], side = (i) => Math.max(0, Math.min(p[i + 2], q[i + 2]) - Math.max(p[i], q[i])), hull = (i) => Math.max(p[i + 2], q[i + 2]) - Math.min(p[i], q[i]);
  const shared = side(0) * side(1), union = a[2] * a[3] + b[2] * b[3] - shared, whole = hull(0) * hull(1), iou = shared / union;
  return { iou, giou: iou - (whole - union) / whole };
}
/** −p + 5 L1 − 2 GIoU, for each query and each object. */
const costsOf = ({ logits, boxes }, objects) => logits.map((row, n) => objects.map((object) =>
  -softmax(row)[object.kind] + 5 * sum(boxOf(object).map((z, i) => Math.abs(z - boxes[n][i]))) - 2 * overlaps(boxes[n], boxOf(object)).giou));
/** The query of each object, so that the sum of the costs is smallest: all ways are tried. */
function matchBest(costs, m = 0, free = range(N)) {
  if (m === costs[0].length) return { queries: [], total: 0 };
  return free.map((n) => { const rest = matchBest(costs, m + 1, free.filter((other) => other !== n)); return { queries: [n, ...rest.queries], total: costs[n][m] + rest.total }; })
    .reduce((a, b) => (b.total < a.total ? b : a));
}
function matchGreedily(costs) {
  const queries = [];
  for (const m of costs[0].keys()) queries.push(range(N).filter((n) => !queries.includes(n)).reduce((a, b) => (costs[b][m] < costs[a][m] ? b : a)));
  return { queries, total: sum(queries.map((n, m) => costs[n][m])) };
}

/** What the sure queries say: the object that each finds (−1 = none), and how often each object is found. */
function judge(found, objects) {
  const p = found.logits.map(softmax), kinds = p.map((row) => largest(row.slice(0, 2))), sure = p.map((row, n) => row[kinds[n]]);
  const fits = range(N).map((n) => {
    const shares = objects.map((object) => (object.kind === kinds[n] && sure[n] > 0.5 ? overlaps(found.boxes[n], boxOf(object)).iou : 0));
    return Math.max(...shares) >= 0.5 ? largest(shares) : -1;
  });
  const times = objects.map((_, m) => fits.filter((each) => each === m).length), elsewhere = range(N).filter((n) => sure[n] > 0.5 && fits[n] < 0).length;
  const once = times.filter((n) => n === 1).length, twice = times.filter((n) => n > 1).length;
  return { kinds, sure, fits, times, elsewhere, once, twice, missed: objects.length - once - twice, right: once === objects.length && !elsewhere };
}

const FIRST = [[0, 3, 5, 5, 7], [1, 8, 1, 7, 3], [0, 12, 9, 4, 6]].map(([kind, x, y, w, h]) => ({ kind, x, y, w, h }));
const KINDS = ["warm", "cool"], state = {};
const copy = (objects) => objects.map((each) => ({ ...each }));
const seen = (name = state.alone ? "alone" : "talk", talk = state.talk) => predict(name, paint(state.objects), talk);
const words = ({ once, twice, missed, elsewhere }, of) => [`${once} of ${of} found once`, twice && `${twice} twice`, missed && `${missed} missed`, elsewhere && `${elsewhere} elsewhere`].filter(Boolean).join(", ");
const percent = (share) => `${round(100 * share, 0)} %`;

function drawScene(found, judged, matching, costs) {
  const { objects } = state, box = ([x, y, w, h], attributes) => make("rect", { x: (x - w / 2) * SIDE, y: (y - h / 2) * SIDE, width: w * SIDE, height: h * SIDE, ...attributes });
  const chip = (n) => [18, 0.25 + 2 * n, 5.9, 1.5], said = (n) => judged.sure[n] > 0.5, first = objects.map((_, m) => range(N).filter((n) => judged.fits[n] === m).reduce((a, b) => (a < 0 || judged.sure[b] > judged.sure[a] ? b : a), -1));
  const good = (n) => judged.fits[n] >= 0 && first[judged.fits[n]] === n, text = (x, y, shown, kind = "") => make("text", { x, y, class: kind }, shown);
  const drawn = make("svg", { viewBox: "0 0 24 16", role: "img", "aria-label": `${objects.length} rectangles and eight queries: ${words(judged, objects.length)}` },
    make("rect", { x: 0, y: 0, width: SIDE, height: SIDE, class: "ground" }),
    ...objects.map((object, m) => box(boxOf(object), { class: `object kind${object.kind}${m === state.chosen ? " chosen" : ""}`, pointerdown: (event) => drag(event, m) })),
    ...range(N).filter((n) => !said(n)).map((n) => box(found.boxes[n], { class: "found none" })),
    ...range(N).filter(said).map((n) => box(found.boxes[n], { class: `found${good(n) ? "" : " wrong"}` })),
    ...objects.map(({ x, y, w, h }, m) => make("path", { class: "link", d: `M${x + w / 2} ${y + h / 2}L18 ${1 + 2 * matching.queries[m]}` })),
    ...objects.map(({ x, y, w, h }, m) => text(x + w / 2 - 0.9, y + h / 2, String(m + 1))),
    ...range(N).flatMap((n) => {
      const [x, y, width, height] = chip(n), m = matching.queries.indexOf(n);
      return [make("rect", { x, y, width, height, rx: 0.4, class: `chip ${said(n) ? (good(n) ? "yes" : "no") : ""}` }),
        text(x + 0.3, y + 0.75, `${n + 1} ${said(n) ? `${KINDS[judged.kinds[n]]} ${round(judged.sure[n])}` : "no object"}`, said(n) ? "" : "quiet"),
        ...(m < 0 ? [] : [text(x - 1.75, y + 0.1, round(costs[n][m], 1), "quiet")])];
    }));
  byId("scene").replaceChildren(drawn);
}

/** Move an object with the pointer, by whole pixels, until it is released. */
function drag(event, m) {
  event.preventDefault();
  const pixel = byId("scene").firstChild.getBoundingClientRect().width / 24, { x, y } = state.objects[m];
  const move = (now) => { place(m, { x: x + Math.round((now.clientX - event.clientX) / pixel), y: y + Math.round((now.clientY - event.clientY) / pixel) }); };
  const stop = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", stop); removeEventListener("pointercancel", stop); };
  for (const [name, act] of [["pointermove", move], ["pointerup", stop], ["pointercancel", stop]]) addEventListener(name, act);
  state.chosen = m;
  show();
}

const clamp = (z, least, most) => Math.max(least, Math.min(most, z));
function place(m, changes) {
  const each = { ...state.objects[m], ...changes };
  for (const part of ["w", "h"]) each[part] = clamp(each[part], SMALLEST, LARGEST);
  each.x = clamp(each.x, 0, SIDE - each.w);
  each.y = clamp(each.y, 0, SIDE - each.h);
  state.objects[m] = each;
  show();
}
function drawEdit() {
  const { objects, chosen } = state, { x, y, w, h, kind } = objects[chosen];
  const button = (shown, label, act, attributes = {}) => make("button", { "aria-label": label, "data-label": label, click: () => { act(); const again = document.querySelector(`#edit [data-label="${label}"]`); if (again) again.focus(); }, ...attributes }, shown);
  byId("edit").replaceChildren(...objects.map((each, m) => button(`${m + 1} ${KINDS[each.kind]}`, `rectangle ${m + 1}`, () => set({ chosen: m }), { "aria-pressed": String(m === chosen) })),
    ...[["←", "left", { x: x - 1 }], ["→", "right", { x: x + 1 }], ["↑", "up", { y: y - 1 }], ["↓", "down", { y: y + 1 }], ["wider", "wider", { w: w + 1 }], ["narrower", "narrower", { w: w - 1 }],
      ["taller", "taller", { h: h + 1 }], ["shorter", "shorter", { h: h - 1 }], ["other kind", "other kind", { kind: 1 - kind }]].map(([shown, label, changes]) => button(shown, label, () => place(chosen, changes))),
    button("add", "add", () => set({ objects: [...objects, { kind, x: 6, y: 6, w: 3, h: 3 }], chosen: objects.length }), objects.length < MOST ? {} : { disabled: "" }),
    button("remove", "remove", () => set({ objects: objects.filter((_, m) => m !== chosen), chosen: 0 }), objects.length > 1 ? {} : { disabled: "" }));
}

function drawCosts(costs, judged, matching) {
  byId("costs").replaceChildren(make("table", {}, make("caption", {}, "−p + 5 L1 − 2 GIoU: low if the query gives the rectangle's kind a high probability p and its box is close. Framed: matched."),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "query"), ...state.objects.map((each, m) => make("th", { scope: "col" }, `${m + 1} ${KINDS[each.kind]}`)), make("th", { scope: "col" }, "says"))),
    make("tbody", {}, ...costs.map((row, n) => make("tr", { class: matching.queries.includes(n) ? "" : "masked" }, make("th", { scope: "row" }, String(n + 1)),
      ...row.map((cost, m) => make("td", matching.queries[m] === n ? { class: "match" } : {}, round(cost, 1))), make("td", {}, judged.sure[n] > 0.5 ? `${KINDS[judged.kinds[n]]} ${round(judged.sure[n])}` : "no object"))))));
}

/** Who reads whom in the last layer; a query is near the rectangle with which it could be matched most cheaply. */
function drawOwn(weights, costs) {
  const near = costs.map((row) => row.indexOf(Math.min(...row)) + 1), most = weights?.map(largest), same = most?.filter((j, i) => near[i] === near[j]).length;
  byId("own").replaceChildren(!weights ? "None: there is no self-attention." : make("table", {},
    make("caption", {}, `A cell is a query that is read, 1 to 8. Near a rectangle: the cheapest to match with. ${same} of ${N} read most themselves or a query near the same rectangle.`),
    make("tbody", {}, ...weights.map((row, i) => make("tr", {}, make("th", { scope: "row" }, String(i + 1)), make("td", {}, cells(row, 1)),
      make("td", {}, `near ${near[i]}; most: query ${most[i] + 1}, near ${near[most[i]]}, ${round(row[most[i]])}`))))));
}

function show() {
  const { objects, talk, alone, greedy } = state, found = seen(), judged = judge(found, objects), costs = costsOf(found, objects), n = objects.length;
  const best = matchBest(costs), matching = greedy ? matchGreedily(costs) : best, one = (name, on) => judge(seen(name, on), objects);
  byId("answer").replaceChildren(`${n} rectangle${n > 1 ? "s" : ""}: `, make("b", { class: judged.right ? "good" : "bad" }, `${judged.once} found once`), `, ${judged.twice} twice, ${judged.missed} missed; ${judged.elsewhere} boxes elsewhere`);
  byId("talk").checked = talk && !alone;
  byId("talk").disabled = alone;
  byId("alone").checked = alone;
  byId("greedy").checked = greedy;
  const without = one("talk", false), never = one("alone");
  byId("talk-effect").textContent = alone ? "This model has none." : `Without it: ${words(without, n)}${without.right ? "; here it does not matter" : ""}.`;
  byId("alone-effect").textContent = `It: ${words(never, n)}.`;
  byId("greedy-effect").textContent = `Total cost ${round(matchGreedily(costs).total)}; the smallest is ${round(best.total)}${matchGreedily(costs).total - best.total < 1e-9 ? ": no difference here" : ""}.`;
  byId("effect").textContent = alone ? `Trained without self-attention: of new rectangles, ${percent(models.alone.whole.once)} are found once, ${percent(models.alone.whole.twice)} twice; with it ${percent(models.talk.whole.once)} and ${percent(models.talk.whole.twice)}. Here every query must tell by itself whether another one says the same.`
    : talk ? `As trained: ${words(judged, n)}. In the second layer, each query also reads what the others have found in the first.`
      : `No query knows what the others say: ${words(judged, n)}. Of new rectangles, ${percent(models.talk.silent.once)} are found once, and ${round(models.talk.silent.elsewhere, 1)} boxes a scene fit none.`;
  byId("total").textContent = `The matching that costs least: ${round(best.total)}${greedy ? `; greedily ${round(matching.total)}` : ""}. In training, a matched query learns the kind and the box of its rectangle, every other “no object”.`;
  byId("reset").disabled = talk && !alone && !greedy && JSON.stringify(objects) === JSON.stringify(FIRST);
  drawScene(found, judged, matching, costs);
  drawEdit();
  drawCosts(costs, judged, matching);
  drawOwn(found.own.at(-1), costs);
  const address = new URLSearchParams({ objects: objects.map(({ kind, x, y, w, h }) => [kind, x, y, w, h].join(".")).join("_") });
  for (const [name, on] of [["talk", !talk], ["alone", alone], ["greedy", greedy]]) if (on) address.set(name, name === "talk" ? 0 : 1);
  byId("share").href = `#${address}`;
  if (location.protocol !== "about:") history.replaceState(null, "", byId("share").href);
}

/** Open what an address asks for; what it does not say, or says wrongly, is as in the first view. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1)), within = (z, least, most) => Number.isInteger(z) && z >= least && z <= most;
  const objects = (asked.get("objects") ?? "").split("_").map((each) => { const [kind, x, y, w, h] = each.split(".").map(Number); return { kind, x, y, w, h }; });
  const known = objects.length <= MOST && objects.every(({ kind, x, y, w, h }) => within(kind, 0, 1) && within(w, SMALLEST, LARGEST) && within(h, SMALLEST, LARGEST) && within(x, 0, SIDE - w) && within(y, 0, SIDE - h));
  Object.assign(state, { objects: copy(known ? objects : FIRST), chosen: 0, talk: asked.get("talk") !== "0", alone: asked.get("alone") === "1", greedy: asked.get("greedy") === "1" });
  show();
}

const set = (changes) => { Object.assign(state, changes); show(); };
for (const part of ["talk", "alone", "greedy"]) byId(part).addEventListener("change", (event) => set({ [part]: event.target.checked }));
byId("reset").addEventListener("click", () => set({ objects: copy(FIRST), chosen: 0, talk: true, alone: false, greedy: false }));
byId("about").textContent = `A set predictor of 10,851 weights: two of DETR's decoder layers, whose queries start from 0 and a learned vector, over 64 cells of 2 × 2 pixels. Trained on scenes of one to four rectangles, of which two of one kind never touch; ` +
  `of new rectangles it finds ${percent(models.talk.whole.once)} once and ${percent(models.talk.whole.twice)} twice; ${percent(models.talk.whole.scenes)} of the scenes are without a mistake, fewest of those with four. A box finds a rectangle of its kind if intersection over union is at least a half.`;
window.addEventListener("hashchange", readAddress);
followTheme(show);
readAddress();
