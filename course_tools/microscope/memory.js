// A memory of fixed size: three trained models write values under keys into a matrix, and read them (lecture 18).
// They are `KeyValueMemory` of course_tools/lectures/lecture_18/experiments.py.
const models = loadModels(JSON.parse(document.getElementById("models").textContent));
const LETTERS = "abcdefghijklmnopqrstuvwxyz", N_VALUES = 16, D = 16, LONGEST = 64;
const NAMES = { delta: "delta rule", gate: "gate", sum: "sum" };
function formula(name) {
  const { correct, fade } = state.switches, S = fade ? "0.8 S" : "S";
  return { delta: `${S} + β k ${correct ? `(v − ${S}ᵀk)ᵀ` : "vᵀ"}`, gate: "α S + k vᵀ", sum: "S + γ k vᵀ" }[name];
}
const WORDS = { delta: "replaces what the key returned", gate: "fades all keys, then adds", sum: "adds, and never forgets" };
const untouched = () => ({ correct: true, fade: false });
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const norm = (x) => Math.sqrt(dot(x, x));
const unit = (x) => x.map((y) => y / norm(x));
const project = (name, part, x) => linear([x], models[name].weights[`${part}.weight`])[0];
const valueVector = (name, value) => project(name, "W_v", models[name].weights["value.weight"][value]);
const readAt = (S, q) => range(D).map((j) => sum(S.map((row, i) => row[j] * q[i])));  // Sᵀq

/** One write: fade, compare, write. A value of null is the zero vector, written with β = 1: the delta rule then erases the key. */
function write(name, S, { key, value }, switches) {
  const { weights } = models[name], keyVector = weights["key.weight"][key];
  const embedded = value === null ? keyVector.map(() => 0) : weights["value.weight"][value];
  const k = unit(project(name, "W_k", keyVector)), v = project(name, "W_v", embedded);
  const learned = sigmoid(project(name, "gates", add(keyVector, embedded))[0] + weights["gates.bias"][0]), gate = name === "delta" && value === null ? 1 : learned;
  const keep = name === "gate" ? gate : name === "delta" && switches.fade ? 0.8 : 1, strength = name === "gate" ? 1 : gate;
  const faded = S.map((row) => row.map((s) => keep * s)), says = readAt(faded, k);
  const error = name === "delta" && switches.correct ? v.map((x, j) => x - says[j]) : v;
  return { S: faded.map((row, i) => row.map((s, j) => s + strength * k[i] * error[j])), k, v, says, error, gate };
}

/** What a key returns: the context Sᵀq, and the probability of each value. */
function read(name, S, key) {
  const { weights } = models[name], context = readAt(S, unit(project(name, "W_q", weights["key.weight"][key])));
  return { context, p: decode(name, context) };
}
function decode(name, context) {
  const { weights } = models[name], at = (part) => weights[`read_out.${part}`];
  const [normed] = layerNorm([context], at("0.weight"), at("0.bias"), 1e-5);
  return softmax([...linear([normed], at("1.weight"), at("1.bias"))[0]]);
}

/** The memory after some writes, and the last of them in all its parts. */
function run(name, writes, switches = untouched()) {
  let last = { S: range(D).map(() => Array(D).fill(0)) };
  for (const each of writes) last = write(name, last.S, each, switches);
  return last;
}

/** The model returns no value if what it reads is short beside the vectors of values. */
const lengthOfValues = Object.fromEntries(Object.keys(models).map((name) =>
  [name, mean(range(N_VALUES).map((value) => norm(valueVector(name, value))))]));
/** The largest number in a value of the delta rule, which has the strongest colour. */
const mostOfValues = Math.max(...range(N_VALUES).flatMap((value) => [...valueVector("delta", value)].map(Math.abs)));
function answer(name, S, key) {
  const { context, p } = read(name, S, key), best = largest(p);
  return { p, value: norm(context) < 0.15 * lengthOfValues[name] ? null : best, sure: p[best] };
}

const FIRST = "a=13 a=5 b=13 c=3 c=14 b=6 d=9 b=4 a=12 e=2 e=8 f=13 c=5 f=9 f=5 c=11 e=0 g=1 a=11 b=3 f=11 e=12";
const state = { text: FIRST, at: 0, switches: untouched() };
const parsed = (text) => text.trim().split(/\s+/).filter(Boolean).map((each) => {
  const [, key, value] = /^([a-z])=(\d*)$/.exec(each) ?? [];
  return { key: LETTERS.indexOf(key ?? "?"), value: value ? Number(value) : null, text: each };
});
const shown = ({ key, value }) => (value === null ? `erase ${LETTERS[key]}` : `${LETTERS[key]} ← ${value}`);
const done = () => parsed(state.text).slice(0, state.at);
/** The newest value of each key, in the order of their first writes. */
const newest = (writes) => new Map(writes.map(({ key, value }) => [key, value]));

const changed = () => [!state.switches.correct && "without correction", state.switches.fade && "with forgetting"].filter(Boolean).join(", ");

/** How many keys return their newest value. */
function score(name, switches = state.switches) {
  const writes = done(), { S } = run(name, writes, switches), wanted = [...newest(writes)];
  return { right: wanted.filter(([key, value]) => answer(name, S, key).value === value).length, of: wanted.length };
}
/** The keys that are written, as letters: those that return another value are struck through. */
function keysRead(name) {
  const writes = done(), { S } = run(name, writes, state.switches), wanted = [...newest(writes)];
  return make("span", { class: "keys", "aria-hidden": "true" }, ...(wanted.length > 12 ? [] : wanted).map(([key, value]) =>
    make("span", { class: answer(name, S, key).value === value ? "good" : "bad" }, LETTERS[key])));
}
const scored = (name, switches) => { const { right, of } = score(name, switches); return `${right} of ${of}`; };

function refusal(text) {
  const writes = parsed(text), wrong = writes.find(({ key, value }) => key < 0 || value >= N_VALUES);
  if (wrong) return `Write a letter, “=” and a number from 0 to 15, such as a=3, not “${wrong.text}”.`;
  return writes.length > LONGEST ? `${writes.length} writes are too many: the models were trained on ${LONGEST}.` : writes.length ? "" : "Write at least once.";
}

function typed(text) {
  const problem = refusal(text);
  byId("text").setAttribute("aria-invalid", String(Boolean(problem)));
  byId("problem").textContent = problem && `${problem} Still showing the writes before.`;
  if (!problem) { Object.assign(state, { text: text.trim(), at: parsed(text).length }); show(); }
}

/** The colours of numbers. */
const SIGNS = () => make("span", { class: "numbers", "aria-hidden": "true" }, "numbers in S:", make("span", { class: "sign cool" }, "below 0"), make("span", { class: "sign warm" }, "above 0"));

function drawTable() {
  const writes = done(), wanted = [...newest(writes)], after = Object.keys(NAMES).map((name) => [name, run(name, writes, state.switches).S]);
  const head = ([name, S]) => make("th", { scope: "col" }, NAMES[name], make("small", {}, name === "delta" && changed() ? changed() : WORDS[name]), make("small", {}, formula(name)),
    make("span", { class: "matrix", role: "img", "aria-label": `S of the ${NAMES[name]}, 16 rows and 16 columns` },
      ...S.map((row) => cells(row, Math.max(1e-9, ...S.flat().map(Math.abs))))), make("span", { class: "ends", "aria-hidden": "true" }, make("small", {}, "value 0"), make("small", {}, "…"), make("small", {}, "15")));
  const cell = (name, S, key, value) => {
    const found = answer(name, S, key), right = found.value === value;
    return make("td", {}, cells(found.p.map(Math.sqrt), 1), " ", make("span", { class: right ? "good" : "bad" }, `${found.value ?? "nothing"} ${right ? "✓" : "✗"}`),
      make("small", {}, found.value === null ? "" : ` ${round(found.sure)}`));
  };
  byId("table").replaceChildren(make("table", {}, make("caption", {}, "Below its S, each model is asked for every key: the probability of the values 0 to 15, and the largest."),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, SIGNS(), "key"), make("th", { scope: "col" }, "newest"), ...after.map(head))),
    make("tbody", {}, ...wanted.map(([key, value]) => make("tr", { class: writes.at(-1).key === key ? "best" : "" }, make("th", { scope: "row" }, LETTERS[key]),
      make("td", {}, String(value ?? "nothing")), ...after.map(([name, S]) => cell(name, S, key, value)))))));
}

function drawWrite() {
  const writes = done(), last = writes.at(-1);
  byId("steps-title").textContent = last ? `What the delta rule did at write ${state.at}: ${shown(last)}` : "The memory is empty: S = 0";
  byId("write").replaceChildren();
  if (!last) return;
  const { k, v, says, error, gate, S } = run("delta", writes, state.switches), most = (x) => Math.max(...x.map(Math.abs));
  const said = answer("delta", run("delta", writes.slice(0, -1), state.switches).S, last.key), now = answer("delta", S, last.key);
  const line = (name, vector, of, words) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, cells(vector, of)), make("td", {}, words));
  byId("write").append(make("table", {}, make("tbody", {},
    line("key k", k, most(k), `of ${LETTERS[last.key]}`),
    line("read Sᵀk", says, mostOfValues, said.value === null ? "nearly zero: no value" : `most probable value: ${said.value}`),
    line("value v", v, mostOfValues, last.value === null ? "zero, to erase" : `of ${last.value}`),
    line(state.switches.correct ? "error v − Sᵀk" : "v, not corrected", error, mostOfValues, `is written under k, with β = ${round(gate)}; then ${LETTERS[last.key]} returns ${now.value ?? "nothing"}`))));
}

/** All writes are seen: the field is as high as its text. */
function fitText() {
  const field = byId("text");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 4}px`;
}

function show() {
  const writes = parsed(state.text), { switches, at } = state, name = LETTERS[(writes[at - 1] ?? writes[0]).key];
  if (document.activeElement !== byId("text")) byId("text").value = state.text;
  byId("at").max = writes.length;
  byId("at").value = at;
  byId("at-name").value = `${at} of ${writes.length}${at ? `: ${writes[at - 1].text}` : ""}`;
  byId("at").setAttribute("aria-valuetext", `${at} of ${writes.length}${at ? `, the last: ${shown(writes[at - 1])}` : ""}`);
  byId("rewrite").textContent = `Rewrite ${name}`;
  byId("erase").textContent = `Erase ${name}`;
  byId("answer").replaceChildren(make("span", {}, "Newest values:"), ...Object.keys(NAMES).map((each) => {
    const { right, of } = score(each);
    return make("span", {}, `${NAMES[each]} `, make("b", { class: right === of ? "good" : "bad" }, `${right} of ${of}`), " ", keysRead(each));
  }));
  byId("correct").checked = switches.correct;
  byId("fade").checked = switches.fade;
  byId("correct-effect").textContent = `Without it: ${scored("delta", { ...untouched(), correct: false })}.`;
  byId("fade-effect").textContent = `With it: ${scored("delta", { ...untouched(), fade: true })}.`;
  byId("effect").textContent = `Delta rule as trained: ${scored("delta", untouched())}. ` + (changed() ? `Now, ${changed()}: ${scored("delta")}.` : "");
  byId("reset").disabled = !changed();
  drawTable();
  drawWrite();
  fitText();
  const asked = new URLSearchParams({ text: state.text, at });
  if (!switches.correct) asked.set("correct", 0);
  if (switches.fade) asked.set("fade", 1);
  byId("share").href = `#${asked}`;
  if (location.protocol !== "about:") history.replaceState(null, "", byId("share").href);
}

/** Open what an address asks for; what it does not say, or says wrongly, is as in the first view. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1)), text = asked.get("text") ?? "", at = Number(asked.get("at") ?? NaN);
  state.text = refusal(text) ? FIRST : text;
  const n = parsed(state.text).length;
  Object.assign(state, { at: Number.isInteger(at) && at >= 0 && at <= n ? at : n, switches: { correct: asked.get("correct") !== "0", fade: asked.get("fade") === "1" } });
  show();
}

/** Write once more, after the writes that are done, under the key of the last. */
function append(value) {
  const writes = done(), { key } = writes.at(-1) ?? parsed(state.text)[0];
  state.text = [...writes.map(({ text }) => text), `${LETTERS[key]}=${value ?? ""}`].slice(-LONGEST).join(" ");
  state.at = parsed(state.text).length;
  show();
}

byId("text").addEventListener("input", (event) => typed(event.target.value));
byId("at").addEventListener("input", (event) => { state.at = Number(event.target.value); show(); });
byId("rewrite").addEventListener("click", () => append(((newest(done()).get((done().at(-1) ?? {}).key) ?? 0) + 5) % N_VALUES));
byId("erase").addEventListener("click", () => append(null));
for (const part of ["correct", "fade"]) byId(part).addEventListener("change", (event) => { state.switches[part] = event.target.checked; show(); });
byId("reset").addEventListener("click", () => { state.switches = untouched(); show(); });
byId("about").textContent = `Three trained models of ${sum(Object.values(models.delta.weights).map((W) => (W[0].length ? sum(W.map((row) => row.length)) : W.length))).toLocaleString("en")} parameters each, ` +
  `trained on 64 writes to 20 keys. On new ones they return the newest value of rewritten keys, and of the others: ${Object.entries(NAMES).map(([name, said]) =>
    `${said} ${round(100 * models[name].hot, 0)} and ${round(100 * models[name].once, 0)} %`).join(", ")}.`;
window.addEventListener("hashchange", readAddress);
window.addEventListener("resize", fitText);
followTheme(show);
readAddress();
