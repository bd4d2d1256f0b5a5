// The decoder of today: a small Llama writes the end of a word again; its rotations and its cache are in sight (lecture 17).
// It is `Llama` of course_lib/models/llama.py; `step` is its step by step form.
const models = JSON.parse(byId("models").textContent);
for (const model of Object.values(models)) {
  model.weights = model.weights.map((part) => {
    const all = unpack({ ...part, shape: [] }), [n, width] = part.shape;
    return width ? range(n).map((i) => all.subarray(i * width, (i + 1) * width)) : all;
  });
}
const ALPHABET = "abcdefghijklmnopqrstuvwxyz123456789", SHORTEST = 3, LONGEST = 14;
const N_HEADS = 4, D_K = 8, N_LAYERS = 2, BYTES = 2, FIRST = "microscope5";
const SPEEDS = range(D_K / 2).map((i) => 100 ** (-2 * i / D_K));
const GROUPS = { 4: 4, 2: 2, 1: 1, mean: 1, never: 2 };
const ORDER = ["4", "2", "1", "mean", "never"];
const KINDS = { 4: "4: one for each (multi-head)", 2: "2: two heads share one (grouped queries)", 1: "1: all share it (multi-query)",
  mean: "1: the mean of those 4, not trained", never: "2: trained without any turning" };
const MISTRAL = { 4: 32, 2: 16, 1: 8 };  // as many heads of queries for each head of keys, in a model with 32 of queries
const PARTS = ["W_q", "W_k", "W_v", "W_o", "W_gate", "W_up", "W_down", "norm_1", "norm_2"];  // of a block; embedding before, norm and readout after
const nameOf = (i) => PARTS[(i - 1) % PARTS.length];
models.mean = { weights: models[4].weights.map((W, i) => (i < models[4].weights.length - 2 && /W_[kv]/.test(nameOf(i))
  ? range(D_K).map((r) => W[r].map((_, j) => mean(range(N_HEADS).map((h) => W[h * D_K + r][j])))) : W)) };

const rmsNorm = (x, gain) => { const size = Math.sqrt(dot(x, x) / x.length + 1e-6); return x.map((y, i) => (y / size) * gain[i]); };
/** Turn pair i, the features 2i and 2i + 1, by position · SPEEDS[i], counter-clockwise. */
const turn = (x, position) => x.map((y, j) => {
  const angle = position * SPEEDS[j >> 1], other = x[j ^ 1];
  return y * Math.cos(angle) + (j % 2 ? other : -other) * Math.sin(angle);
});

/** Read one more token: append its turned keys and its values to the cache, and attend from it to all that are there. */
function step(name, cache, token, position, switches) {
  const { weights } = models[name], at = (l, part) => weights[1 + l * PARTS.length + PARTS.indexOf(part)];
  const project = (l, part, x) => linear([x], at(l, part))[0];
  const heads = (x) => range(x.length / D_K).map((h) => [...x.slice(h * D_K, (h + 1) * D_K)]);
  const turned = (list, on) => (on && name !== "never" ? list.map((x) => turn(x, position)) : list);
  let x = weights[0][token];
  const layers = cache.map((kept, l) => {
    const [q, k, v] = ["W_q", "W_k", "W_v"].map((part) => heads(project(l, part, rmsNorm(x, at(l, "norm_1")))));
    kept.k.push(turned(k, switches.keys));
    kept.v.push(v);
    const read = turned(q, switches.queries).map((query, i) => {
      const group = Math.floor((i * k.length) / N_HEADS), scores = kept.k.map((keys) => dot(query, keys[group]) / Math.sqrt(D_K));
      const shares = softmax(scores);
      return { query, group, scores, weights: shares, context: range(D_K).map((j) => sum(shares.map((share, t) => share * kept.v[t][group][j]))) };
    });
    x = add(x, project(l, "W_o", read.flatMap(({ context }) => context)));
    const inside = rmsNorm(x, at(l, "norm_2")), up = project(l, "W_up", inside);
    x = add(x, project(l, "W_down", project(l, "W_gate", inside).map((a, i) => (a / (1 + Math.exp(-a))) * up[i])));
    return { heads: read, q, k };
  });
  return { logits: linear([rmsNorm(x, weights.at(-2))], weights.at(-1))[0], layers };
}
const emptyCache = () => range(N_LAYERS).map(() => ({ k: [], v: [] }));

/** Read a word and its digit, and write as many letters; each letter but the last is read, too. */
function run(name, text, switches, start = 0) {
  const cache = emptyCache(), steps = [], { word, digit } = parsed(text);
  let tokens = text;
  for (let t = 0; t < word.length + digit; t++) {
    steps.push(step(name, cache, ALPHABET.indexOf(tokens[t]), start + t, switches));
    if (t >= word.length) tokens += ALPHABET[largest(steps[t].logits)];
  }
  const written = tokens.slice(text.length), wanted = word.slice(-digit);
  return { cache, steps, tokens, written, of: digit, right: [...wanted].filter((letter, i) => letter === written[i]).length };
}

const state = {};
const parsed = (text) => { const [, word, digit] = /^(.*)(.)$/.exec(text); return { word, digit: Number(digit) }; };
const asked = () => parsed(state.text).digit;
const untouched = () => ({ queries: true, keys: true });
const result = (name, switches = state.switches) => run(name, state.text, switches, state.start);
const said = ({ right, of }) => `${right} of ${of}`;
const bytes = (name, T) => 2 * N_LAYERS * GROUPS[name] * D_K * T * BYTES;
const count = (n) => n.toLocaleString("en");
const percent = (share) => `${round(100 * share, share < 0.995 && share > 0.9 ? 1 : 0)} %`;
const queryAt = () => parsed(state.text).word.length + state.at - 1;  // the token that asks

function refusal(text) {
  const [, word, digit] = /^([a-z]*)([1-9])$/.exec(text) ?? [];
  if (!digit) return `Type letters from a to z, and then a digit from 1 to 9, such as ${FIRST}, not “${text}”.`;
  if (word.length < SHORTEST || word.length > LONGEST) return `${word.length} letters: the models were trained on words of ${SHORTEST} to ${LONGEST}.`;
  return digit > word.length ? `The word has ${word.length} letters: ask for at most ${word.length}.` : "";
}

function typed(raw) {
  const text = raw.trim().toLowerCase(), problem = refusal(text);
  byId("text").setAttribute("aria-invalid", String(Boolean(problem)));
  byId("problem").textContent = problem && `${problem} Still showing the word before.`;
  if (!problem) { Object.assign(state, { text, at: 1, head: null, key: null }); show(); }
}

/** The head that is looked at: the one chosen, or the one that looks most at the letter to copy where nothing is switched off. */
function chosenHead() {
  if (state.head) return state.head.split(".").map(Number);
  const { steps } = result(state.model, untouched()), all = steps[queryAt()].layers.flatMap(({ heads }, l) => heads.map(({ weights }, h) => [weights[queryAt() - asked()], l, h]));
  return all.reduce((a, b) => (b[0] > a[0] ? b : a)).slice(1);
}

function drawReads(now, [layer, head], key) {
  const t = queryAt(), { word } = parsed(state.text);
  const letter = (each, i) => make("span", { class: i === t ? "query" : i === key ? "key" : i > word.length ? "written" : "" }, each);
  byId("reads").replaceChildren(make("div", { class: "row" }, make("span", {}, "head"), make("span", { class: "word" }, ...[...now.tokens.slice(0, t + 1)].map(letter)), make("span", {}, "most")),
    ...now.steps[t].layers.flatMap(({ heads }, l) => heads.map(({ weights }, h) => make("button", { class: "row", id: `head-${l}.${h}`, "aria-pressed": String(l === layer && h === head),
      click: () => { Object.assign(state, { head: `${l}.${h}`, key: null }); show(); byId(`head-${l}.${h}`).focus(); } },
    make("span", {}, `${l + 1}.${h + 1}`), cells(weights, 1), make("span", {}, `${now.tokens[largest(weights)]} ${round(Math.max(...weights))} `, make("small", {}, t - largest(weights) ? `${t - largest(weights)} back` : "itself"))))));
}

const DIAL = 44, hand = (x, y) => `M0 0L${round(x * DIAL, 1)} ${round(-y * DIAL, 1)}`.replaceAll("−", "-");
function drawClocks(now, [l, h], key) {
  const t = queryAt(), { heads, q } = now.steps[t].layers[l], { query, group, scores, weights } = heads[h];
  const turnedKey = now.cache[l].k[key][group], before = { q: q[h], k: now.steps[key].layers[l].k[group] };
  const sizes = (x) => range(D_K / 2).map((i) => Math.hypot(x[2 * i], x[2 * i + 1])), long = { q: Math.max(...sizes(query)), k: Math.max(...sizes(turnedKey)) };
  const added = SPEEDS.map((_, i) => query[2 * i] * turnedKey[2 * i] + query[2 * i + 1] * turnedKey[2 * i + 1]);
  const sharing = heads.map((each, i) => (i !== h && each.group === group ? ` ${l + 1}.${i + 1}` : "")).filter(Boolean);
  byId("clocks-title").textContent = `Head ${l + 1}.${h + 1}${sharing.length ? `, with the keys of${sharing}` : ""}: the query of “${now.tokens[t]}” and the key of “${now.tokens[key]}”, ${t - key} back, pair by pair`;
  byId("clocks").replaceChildren(...SPEEDS.map((speed, i) => {
    const path = (d, kind) => make("path", { d, class: kind }), of = (x, which) => hand(x[2 * i] / long[which], x[2 * i + 1] / long[which]);
    const angle = (x) => Math.atan2(x[2 * i + 1], x[2 * i]), between = Math.acos(Math.min(1, Math.max(-1, added[i] / (sizes(query)[i] * sizes(turnedKey)[i]))));
    const ends = [turnedKey, query].map((x) => [12 * Math.cos(angle(x)), -12 * Math.sin(angle(x))].map((z) => z.toFixed(1)).join(" "));
    const sweep = Math.sin(angle(query) - angle(turnedKey)) > 0 ? 0 : 1;
    const drawn = make("svg", { viewBox: "-48 -48 96 96", role: "img", "aria-label": `Pair ${i + 1}: ${round((between * 180) / Math.PI, 0)}° between query and key` },
      path("M-46 0a46 46 0 1 0 92 0a46 46 0 1 0 -92 0", "rim"), path(of(before.q, "q"), "q before"), path(of(before.k, "k"), "k before"),
      path(`M${ends[0]}A12 12 0 0 ${sweep} ${ends[1]}`, "angle"), path(of(turnedKey, "k"), "k"), path(of(query, "q"), "q"));
    return make("figure", {}, drawn, make("figcaption", {}, `${round((speed * 180) / Math.PI, 0)}° a token; ${round((between * 180) / Math.PI, 0)}° between them. Adds ${round(added[i], 1)}.`));
  }));
  const how = state.model === "never" ? "This model turns nothing." : state.switches.queries && state.switches.keys ? `Each hand has turned by its speed at every token since position 0; the angle between them is that of ${t - key} tokens.`
    : state.switches.queries || state.switches.keys ? "Only one hand turns, so the angle between them changes with the place of the text." : "Nothing turns: the distance has no effect.";
  byId("score").textContent = `Warm: query, cool: key; dashed: before turning. ${how} The sum, ${round(sum(added), 1)}, divided by √8 is the score ${round(scores[key])}; softmax over all keys makes the weight ${round(weights[key])} of it.`;
}

function drawCache(now) {
  const T = queryAt() + 1, g = GROUPS[state.model];
  byId("cache-title").textContent = `The cache when letter ${state.at} is written: ${T} tokens, ${count(bytes(state.model, T))} bytes`;
  byId("cache").replaceChildren(...now.cache.flatMap(({ k, v }, l) => [["keys", k], ["values", v]].map(([name, kept]) => {
    const rows = range(g * D_K).map((i) => kept.slice(0, T).map((heads) => heads[Math.floor(i / D_K)][i % D_K])), most = Math.max(...rows.flat().map(Math.abs));
    return make("figure", {}, make("span", { class: "matrix", role: "img", "aria-label": `${name} of layer ${l + 1}: ${g * D_K} numbers for each of ${T} tokens` }, ...rows.map((row) => cells(row, most))),
      make("figcaption", {}, `layer ${l + 1}, ${name}: ${g} × ${D_K} rows`));
  })));
  const heads = MISTRAL[g], gigabytes = (2 * 32 * heads * 128 * 32768 * 2) / 1e9;
  byId("bytes").textContent = `A column is a token. ${N_LAYERS} layers × 2 (keys, values) × ${g} heads × ${D_K} numbers × ${T} tokens × ${BYTES} bytes. ` +
    `Mistral 7B, which has 32 heads of queries, ${g === 1 ? "has" : "would have"} ${heads} of keys and values at this ratio${g === 1 ? ", as published" : ""}: ${round(gigabytes, 1)} GB for 32,768 tokens without its window.`;
}

function effect(now) {
  const { queries, keys } = state.switches, { model } = state;
  if (model === "never") return `Trained without turning, as long as the others: ${percent(models.never.letters)} of the letters of new words. Only the mask still says what came before; that has taught it little.`;
  const here = `${said(now)}. `;
  if (queries && keys) return model === "mean" ? `The four heads had learnt different keys and values; their mean is none of them: ${here}With training, one head is enough here.`
    : `As trained: ${here}The angle between query and key depends on their distance alone. Begin the text at position 1,000: nothing changes.`;
  if (queries || keys) return `Only the ${queries ? "queries" : "keys"} turn: ${here}The angle now depends on where the text begins. Move it, and the scores change.`;
  return `Nothing turns: ${here}No score depends on how far back a token stands.`;
}

function show() {
  const now = result(state.model), { switches, start, at, text, model } = state, never = model === "never";
  const [layer, head] = chosenHead(), T = queryAt() + 1, { weights } = now.steps[T - 1].layers[layer].heads[head];
  const key = state.key ?? (state.head ? largest(weights) : T - 1 - asked());
  if (document.activeElement !== byId("text")) byId("text").value = text;
  byId("start").value = start;
  byId("start-name").value = count(start);
  byId("at").max = asked();
  byId("at").value = at;
  byId("at-name").value = `${at} of ${asked()}: ${now.written[at - 1]}`;
  byId("key").max = T - 1;
  byId("key").value = key;
  byId("key-name").value = `${now.tokens[key]}, ${T - 1 - key} back`;
  byId("answer").replaceChildren(`${text} → `, make("b", { class: now.right === now.of ? "good" : "bad" }, now.written), ` ${said(now)} letters right `, make("small", {}, `· cache ${count(bytes(model, T))} bytes`));
  for (const part of ["queries", "keys"]) {
    const without = run(never ? "2" : model, text, { ...untouched(), [part]: false }, start);
    byId(part).checked = switches[part] && !never;
    byId(part).disabled = never;
    byId(`${part}-effect`).textContent = never ? "This model has nothing to turn." : `Without it: ${without.written}, ${said(without)}${without.right === without.of ? "; with this word it does not matter" : ""}.`;
  }
  byId("effect").textContent = effect(now);
  for (const name of ORDER) {
    byId(`model-${name}`).checked = name === model;
    byId(`model-${name}-effect`).replaceChildren(make("span", { class: "bar", style: `width:${(100 * GROUPS[name]) / N_HEADS}%` }), `${said(result(name))}, ${count(bytes(name, T))} bytes`);
  }
  byId("reset").disabled = switches.queries && switches.keys && model === "2" && !start;
  drawReads(now, [layer, head], key);
  drawClocks(now, [layer, head], key);
  drawCache(now);
  const address = new URLSearchParams({ text });
  for (const [name, value, usual] of [["model", model, "2"], ["start", start, 0], ["at", at, 1], ["head", state.head, null], ["key", state.key, null]]) if (value !== usual) address.set(name, value);
  for (const part of ["queries", "keys"]) if (!switches[part]) address.set(part, 0);
  byId("share").href = `#${address}`;
  if (location.protocol !== "about:") history.replaceState(null, "", byId("share").href);
}

/** Open what an address asks for; what it does not say, or says wrongly, is as in the first view. */
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1)), text = given.get("text") ?? "";
  state.text = refusal(text) ? FIRST : text;
  const whole = (name, least, most, usual) => { const n = Number(given.get(name) || NaN); return Number.isInteger(n) && n >= least && n <= most ? n : usual; };
  Object.assign(state, { at: whole("at", 1, asked(), 1), start: whole("start", 0, 1000, 0), model: KINDS[given.get("model")] ? given.get("model") : "2",
    head: /^[01]\.[0-3]$/.test(given.get("head")) ? given.get("head") : null, switches: { queries: given.get("queries") !== "0", keys: given.get("keys") !== "0" } });
  state.key = whole("key", 0, queryAt(), null);
  show();
}

const set = (changes) => { Object.assign(state, changes); show(); };
byId("text").addEventListener("input", (event) => typed(event.target.value));
byId("start").addEventListener("input", (event) => set({ start: Number(event.target.value) }));
byId("at").addEventListener("input", (event) => set({ at: Number(event.target.value), key: null }));
byId("key").addEventListener("input", (event) => set({ key: Number(event.target.value) }));
for (const part of ["queries", "keys"]) byId(part).addEventListener("change", (event) => set({ switches: { ...state.switches, [part]: event.target.checked }, key: null }));
byId("kinds").append(...ORDER.map((name) => make("label", {},
  make("input", { type: "radio", name: "model", id: `model-${name}`, change: () => set({ model: name, head: null, key: null }) }), make("span", {}, KINDS[name]), make("small", { id: `model-${name}-effect` }))));
byId("reset").addEventListener("click", () => set({ switches: untouched(), model: "2", start: 0, head: null, key: null }));
byId("about").textContent = `Llamas of 2 layers with 12 features, and 4 heads of queries of size 8, trained on words of random letters. Letters of new words that are right, with 4, 2 and 1 heads of keys and values: ` +
  `${["4", "2", "1"].map((name) => percent(models[name].letters)).join(", ")}; without turning ${percent(models.never.letters)}. The base of the speeds is 100, not 10,000: the texts are short.`;
window.addEventListener("hashchange", readAddress);
followTheme(show);
readAddress();
