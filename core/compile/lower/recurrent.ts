// Recurrent layers, written out over their time steps: products and gates like any other.
import type { Schema } from "../../../ffi/schema.ts";
import type { Ref } from "../graph.ts";
import { type Lowering, type LoweringRule, num, type Rules } from "./lowering.ts";

/** More cells (time steps, layers, directions) would be a plan that takes long to make. */
const MOST_CELLS = 256;

interface Weights {
  readonly input: Ref;
  readonly hidden: Ref;
  readonly inputBias: Ref | null;
  readonly hiddenBias: Ref | null;
}

/** The state behind a step, from [n, gates * h] of the input, that of the hidden state, and the state before. */
type Cell = (g: Lowering, x: Ref, h: Ref, state: readonly Ref[]) => Ref[];

const part = (g: Lowering, x: Ref, i: number, of: number): Ref => {
  const size = g.shape(x)[1] / of;
  return g.b.slice(x, 1, i * size, (i + 1) * size);
};

const lstm: Cell = (g, x, h, [, memory]) => {
  const sum = g.add(x, h), gate = (i: number) => g.p("sigmoid", part(g, sum, i, 4));
  const next = g.add(g.mul(gate(1), memory), g.mul(gate(0), g.p("tanh", part(g, sum, 2, 4))));
  return [g.mul(gate(3), g.p("tanh", next)), next];
};

const gru: Cell = (g, x, h, [before]) => {
  const gate = (i: number) => g.p("sigmoid", g.add(part(g, x, i, 3), part(g, h, i, 3)));
  const fresh = g.p("tanh", g.add(part(g, x, 2, 3), g.mul(gate(0), part(g, h, 2, 3))));
  return [g.add(g.mul(g.sub(before, fresh), gate(1)), fresh)];
};

const plain = (op: "tanh" | "relu"): Cell => (g, x, h) => {
  const sum = g.add(x, h);
  return [op === "tanh" ? g.p("tanh", sum) : g.where(g.compare("le", sum, num(0)), num(0), sum)];
};

const affine = (g: Lowering, x: Ref, weight: Ref, bias: Ref | null): Ref => {
  const y = g.b.gemm(x, weight, false, true);
  return bias === null ? y : g.add(y, bias);
};

/** Inputs [time, n, i] to outputs [time, n, h], and the last state. */
function direction(
  g: Lowering,
  cell: Cell,
  x: Ref,
  state: readonly Ref[],
  weights: Weights,
  backwards: boolean,
): { output: Ref; last: readonly Ref[] } {
  const [time, n, size] = g.shape(x);
  // One product for the inputs of all times.
  const given = affine(g, g.b.reshape(x, [time * n, size]), weights.input, weights.inputBias);
  const outputs = new Array<Ref>(time);
  let now = state;
  for (let i = 0; i < time; i++) {
    const at = backwards ? time - 1 - i : i;
    const hidden = affine(g, now[0], weights.hidden, weights.hiddenBias);
    now = cell(g, g.b.slice(given, 0, at * n, (at + 1) * n), hidden, now);
    outputs[at] = g.b.reshape(now[0], [1, ...g.shape(now[0])]);
  }
  return { output: g.b.cat(outputs, 0), last: now };
}

type How = [
  biased: boolean,
  count: number,
  dropout: number,
  train: boolean,
  bothWays: boolean,
  batchFirst: boolean,
];

function layers(
  g: Lowering,
  cell: Cell,
  input: Ref,
  states: readonly Ref[],
  parameters: readonly Ref[],
  [biased, count, dropout, train, bothWays, batchFirst]: How,
): Ref[] {
  const ways = bothWays ? 2 : 1, each = biased ? 4 : 2;
  if (dropout > 0 && train && count > 1) g.refuse("random");
  // A projection of the state has one more weight.
  if (g.shape(input).length !== 3 || parameters.length !== each * count * ways) g.refuse("arguments");
  let x = batchFirst ? g.b.permute(input, [1, 0, 2]) : input;
  if (g.shape(x)[0] * count * ways > MOST_CELLS) g.refuse("arguments");
  const last: (readonly Ref[])[] = [];
  for (let layer = 0; layer < count; layer++) {
    const outputs: Ref[] = [];
    for (let way = 0; way < ways; way++) {
      const at = layer * ways + way, [i, h, ib, hb] = parameters.slice(each * at, each * (at + 1));
      const weights = { input: i, hidden: h, inputBias: ib ?? null, hiddenBias: hb ?? null };
      const begin = states.map((state) =>
        g.b.reshape(g.b.slice(state, 0, at, at + 1), g.shape(state).slice(1))
      );
      const made = direction(g, cell, x, begin, weights, way === 1);
      outputs.push(made.output);
      last.push(made.last);
    }
    x = g.b.cat(outputs, 2);
  }
  const whole = (i: number) =>
    g.b.cat(last.map((state) => g.b.reshape(state[i], [1, ...g.shape(state[i])])), 0);
  return [batchFirst ? g.b.permute(x, [1, 0, 2]) : x, ...states.map((_, i) => whole(i))];
}

type Given = [readonly Ref[], ...How];

/** These layers draw random numbers: between two of them numbers are dropped. */
export const dropsBetween = ({ name, overload }: Schema, args: readonly unknown[]): boolean => {
  const [count, dropout, train] = args.slice(overload === "data" ? -4 : -5) as [number, number, boolean];
  return /^(lstm|gru|rnn_tanh|rnn_relu)$/.test(name) && count > 1 && train && dropout > 0;
};

const ofOneState = (cell: Cell): LoweringRule => (g, x: Ref, state: Ref, ...[parameters, ...how]: Given) =>
  layers(g, cell, x, [state], parameters, how);

export const RECURRENT_RULES: Rules = {
  "lstm.input": (g, x: Ref, states: readonly Ref[], ...[parameters, ...how]: Given) =>
    layers(g, lstm, x, states, parameters, how),
  "gru.input": ofOneState(gru),
  "rnn_tanh.input": ofOneState(plain("tanh")),
  "rnn_relu.input": ofOneState(plain("relu")),
};
