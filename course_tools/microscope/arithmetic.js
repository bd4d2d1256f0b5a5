// What every page of the microscope computes with: stored weights, products, layer norm, softmax.
// A matrix is a list of rows, each a Float64Array; weights[name] is a matrix, or one row for a vector.
"use strict";

const CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** One character a weight: W[i][j] = scale[i] (n[i][j] - 31). */
function unpack({ shape, scales, characters }) {
  const width = characters.length / scales.length;
  const rows = scales.map((scale, i) =>
    Float64Array.from({ length: width }, (_, j) => Math.fround(scale) * (CHARACTERS.indexOf(characters[i * width + j]) - 31)));
  return shape.length > 1 ? rows : rows[0];
}

const dot = (a, b) => { let sum = 0; for (let i = 0; i < a.length; i++) sum += a[i] * b[i]; return sum; };
const sum = (a) => a.reduce((x, y) => x + y, 0);
const add = (a, b) => a.map((x, i) => x + b[i]);
const linear = (rows, W, b) => rows.map((x) => Float64Array.from(W, (w, i) => dot(w, x) + (b ? b[i] : 0)));

function layerNorm(rows, gain, bias, eps) {
  return rows.map((x) => {
    const mean = sum(x) / x.length;
    const deviation = Math.sqrt(sum(x.map((y) => (y - mean) ** 2)) / x.length + eps);
    return x.map((y, i) => ((y - mean) / deviation) * gain[i] + bias[i]);
  });
}

/** Softmax over the keys that are not masked (-Infinity); a row that is masked whole has weights 0. */
function softmax(scores) {
  const largest = Math.max(...scores);
  if (largest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = sum(powers);
  return powers.map((power) => power / total);
}

/** The stored models with their weights unpacked; `without[part]` is the same model, trained without that part. */
function loadModels(stored) {
  return Object.fromEntries(Object.entries(stored).map(([name, model]) => [name, {
    ...model, ...(model.without && { without: loadModels(model.without) }),
    weights: Object.fromEntries(Object.entries(model.weights).map(([key, part]) => [key, unpack(part)])),
  }]));
}
