// The three models of the first page, computed as course_lib computes them: course_tools/microscope/models.py.

/** erf by Abramowitz and Stegun 7.1.26: at most 1.5e-7 off. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - poly * Math.exp(-x * x));
}
const gelu = (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2));

/** One head: score, normalise, mix. q, k, v are rows; allowed(i, j) says whether query i may attend to key j. */
function attend(q, k, v, allowed, switches) {
  const scale = switches.scale ? Math.sqrt(q[0].length) : 1;
  const scores = q.map((query, i) => Float64Array.from(k, (key, j) => (allowed(i, j) ? dot(query, key) / scale : -Infinity)));
  const weights = scores.map((row) => softmax(row.map((score) => score / switches.temperature)));
  const context = weights.map((row) => {
    const mixed = new Float64Array(v[0].length);
    row.forEach((weight, j) => { for (let d = 0; d < mixed.length; d++) mixed[d] += weight * v[j][d]; });
    return mixed;
  });
  return { q, k, v, scores, weights, context };
}

/** A stack of pre-norm blocks. Gives the states after the closing norm, and every head of every layer. */
function stack(model, prefix, x, allowed, switches) {
  const at = (name) => model.weights[prefix + name];
  const norm = (rows, name) => layerNorm(rows, at(name + ".weight"), at(name + ".bias"), model.eps);
  const layers = [];
  for (let l = 0; at(`blocks.${l}.norm_1.weight`); l++) {
    const block = `blocks.${l}.`;
    const project = (rows, name) => linear(rows, at(block + name + ".weight"), at(block + name + ".bias"));
    const read = norm(x, block + "norm_1");
    const [q, k, v] = ["W_q", "W_k", "W_v"].map((name) => project(read, "mixer.attention." + name));
    const size = q[0].length / model.n_heads;
    const cut = (rows, h) => rows.map((row) => row.subarray(h * size, (h + 1) * size));
    const heads = [];
    for (let h = 0; h < model.n_heads; h++) {
      const head = attend(cut(q, h), cut(k, h), cut(v, h), allowed, switches);
      if (switches.off.has(`${l}.${h}`)) head.context.forEach((row) => row.fill(0));
      heads.push(head);
    }
    const merged = x.map((_, t) => Float64Array.from(heads.flatMap((head) => [...head.context[t]])));
    x = project(merged, "mixer.attention.W_o").map((row, t) => add(row, x[t]));
    const wide = project(norm(x, block + "norm_2"), "feed_forward.W_1").map((row) => row.map(gelu));
    x = project(wide, "feed_forward.W_2").map((row, t) => add(row, x[t]));
    layers.push(heads);
  }
  return { states: norm(x, "closing"), layers };
}

const asTrained = () => ({ scale: true, mask: true, positions: true, temperature: 1, off: new Set() });
const placed = (rows, vectors, switches) => (switches.positions ? rows.map((row, t) => add(row, vectors[t])) : rows);

/** Each takes tokens, or the 64 pixels of a digit from 0 to 1, and gives logits for each row, and the heads. */
const RUN = {
  reverse(model, tokens, switches = asTrained()) {
    const { weights } = model, padding = weights["tokens.weight"].length - 1;
    const x = placed(tokens.map((token) => weights["tokens.weight"][token]), weights["positions.vectors"], switches);
    const allowed = (i, j) => !switches.mask || tokens[j] !== padding;
    const { states, layers } = stack(model, "stack.", x, allowed, switches);
    return { logits: linear(states, weights["read_out.weight"], weights["read_out.bias"]), layers };
  },
  continue(model, tokens, switches = asTrained()) {
    const { weights } = model;
    const x = placed(tokens.map((token) => weights["tokens.weight"][token]), weights["positions.vectors"], switches);
    const { states, layers } = stack(model, "stack.", x, (i, j) => !switches.mask || j <= i, switches);
    return { logits: linear(states, weights["tokens.weight"]), layers };
  },
  digit(model, pixels, switches = asTrained()) {
    const { weights } = model;
    const patches = linear(pixels.map((ink) => [ink]), weights["encoder.project.weight"], weights["encoder.project.bias"]);
    const x = placed([...weights["encoder.learned"], ...patches], weights["encoder.positions"], switches);
    const { states, layers } = stack(model, "encoder.stack.", x, () => true, switches);
    return { logits: linear(states.slice(0, 1), weights["head.weight"], weights["head.bias"]), layers };
  },
};
