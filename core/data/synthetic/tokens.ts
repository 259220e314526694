// Sequences of tokens from a Markov chain (gpt). May import random, memory, source, ffi.
import { add, scalar, tensor } from "../../../ffi/make.ts";
import { contiguous, indexSelect, mul, narrow, randint, stack, toDtype } from "../../../ffi/ops.ts";
import { manualSeed } from "../../../ffi/random.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import { key, permute } from "../../random.ts";
import { indexTensor } from "../memory.ts";
import { type Source, source } from "../source.ts";
import { checkMemory, checkSamples, type Spec } from "./draw.ts";

const VOCABULARY = 65;
export const CONTEXT = 64;
/** The chances of a token's four successors, in eighths: 4, 2, 1, 1. */
const SUCCESSOR_OF_EIGHTH = [0, 0, 0, 0, 1, 1, 2, 3];
/** Entropy of that choice in nats: the best possible loss once the first token is known. */
export const BEST_LOSS = 1.75 * Math.LN2;

/** Each token is followed by one of four others, drawn from the seed. The target is the next token. */
export function tokens(spec: Spec): Source {
  const { model, role, samples, seed } = spec;
  const vocabulary = model.vocab_size || VOCABULARY;
  const context = model.context || CONTEXT;
  checkSamples(spec, "synthetic tokens", 2 * 4 * (context + 1));
  checkMemory(
    `A vocabulary of ${vocabulary}`,
    4 * SUCCESSOR_OF_EIGHTH.length * vocabulary,
    "set a smaller model.vocab_size",
  );
  const sequences = scope(() => {
    const chances = SUCCESSOR_OF_EIGHTH.length;
    const table = tensor(successors(seed, vocabulary));
    const eighths = scalar(chances, "i32");
    manualSeed(key(seed, "tokens", role));
    const draw = (below: number) => randint(0, below, [samples], "i32");
    const columns = [draw(vocabulary)];
    for (let i = 0; i < context; i++) {
      const chosen = add(mul(columns[i], eighths), draw(chances));
      columns.push(indexSelect(table, 0, chosen));
    }
    return stack(columns, 1);
  });
  keep(sequences);
  return source({
    name: "synthetic tokens",
    length: samples,
    task: "language",
    outputs: vocabulary,
    fields: ["tokens", "next tokens"],
    description: `synthetic tokens: sequences of ${context} out of ${vocabulary}, best possible loss ${
      BEST_LOSS.toFixed(4)
    }`,
    raw(ids) {
      const rows = indexSelect(sequences, 0, indexTensor(ids));
      return {
        input: contiguous(narrow(rows, 1, 0, context)),
        target: contiguous(narrow(rows, 1, 1, context)),
      };
    },
    finish: ({ input, target }) => ({ input: toDtype(input, "i64"), target: toDtype(target, "i64") }),
  });
}

/** The token that follows token t on draw e from 0 to 7, at 8 t + e. */
function successors(seed: number, vocabulary: number): Int32Array {
  const table = new Int32Array(vocabulary * SUCCESSOR_OF_EIGHTH.length);
  for (let token = 0, at = 0; token < vocabulary; token++) {
    const shuffled = permute(vocabulary, key(seed, "tokens", "successors", token));
    for (const successor of SUCCESSOR_OF_EIGHTH) table[at++] = shuffled(successor % vocabulary);
  }
  return table;
}
