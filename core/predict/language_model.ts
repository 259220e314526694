// The language model of a checkpoint, with the tokenizer that its text goes through.
import type { Device } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { CheckpointFile } from "../checkpoint/open.ts";
import { judgedWeights, loadWeights } from "../checkpoint/training_state.ts";
import { field, type Value } from "../checkpoint/value.ts";
import { weightsOf } from "../checkpoint/weights.ts";
import { listOf } from "../data/augment/list.ts";
import { CONTEXT } from "../data/synthetic/synthetic.ts";
import { openTokenizer, tokenizerBeside, tokenizerMark } from "../data/text/open.ts";
import { BYTE_TOKENIZER, PLAIN_BYTES, type Tokenizer } from "../data/text/tokenizer.ts";
import { HEADS } from "../models/builder.ts";
import type { Facts } from "../models/model.ts";
import { createModel } from "../models/registry.ts";
import type { Config } from "../settings/settings.ts";
import { savedAnswers } from "../train/data_facts.ts";
import { placeModel } from "../train/fed_model.ts";
import { type Decoder, gptDecoder, wholeDecoder } from "./decoder.ts";

/** `named` is a tokenizer that the user gives; without it the run's own is looked for. */
export function openLanguageModel(
  file: CheckpointFile,
  config: Config,
  device: Device,
  named?: string,
): { readonly decoder: Decoder; readonly tokenizer: Tokenizer } {
  const decoder = decoderOf(file, config, device);
  if (named === undefined) refuseOtherTokenizer(file.path, file.root, config);
  return { decoder, tokenizer: tokenizerFor(file.path, config, decoder, named) };
}

/** gpt remembers what it has read of a text; other models read all of it for each token. */
function decoderOf({ root, path }: CheckpointFile, config: Config, device: Device): Decoder {
  const { model } = config;
  if (listOf(config.data.augment)?.masked) {
    throw new UserError(
      "usage",
      `generate writes one token after another, and ${path} learned to tell hidden ones from both sides (masked_language): ` +
        "train a model of the next tokens for it, without --augment.",
    );
  }
  if (model.name === "gpt") {
    return gptDecoder(weightsOf(root, path, false).tensors, model.heads || HEADS, { path, device });
  }
  const answers = savedAnswers(root);
  if (answers?.task !== "language") {
    throw new UserError(
      "usage",
      `generate is for language models, and ${path} is of ${model.name}, which learned another task: predict answers with it.`,
    );
  }
  const context = model.context || CONTEXT, vocabulary = answers.outputs;
  const facts: Facts = { task: "language", input: { shape: [context], dtype: "i64" }, outputs: vocabulary };
  const made = createModel(model, facts);
  loadWeights(made.root.stateDict(), judgedWeights(root).root, path);
  return wholeDecoder(placeModel(made, device), { path, device, context, vocabulary });
}

/** The folder may have been packed again since. */
function refuseOtherTokenizer(path: string, root: Value, { data }: Config): void {
  const own = field(field(root, "hpctrain"), "tokenizer"), found = tokenizerMark(data);
  if (typeof own !== "string" || found === null || own === found) return;
  throw new UserError(
    "usage",
    `${path} was trained on tokens of another tokenizer than the one in ${data.data_path}, which was packed again: name its ` +
      "own with --tokenizer.",
  );
}

function tokenizerFor(path: string, { data }: Config, { vocabulary }: Decoder, named?: string): Tokenizer {
  if (named !== undefined) {
    return named === "bytes" && vocabulary === 256 ? PLAIN_BYTES : openTokenizer(named);
  }
  const beside = tokenizerBeside(data);
  if (beside) return beside;
  if (vocabulary === PLAIN_BYTES.vocabulary) return PLAIN_BYTES;
  if (vocabulary === BYTE_TOKENIZER.vocabulary) return BYTE_TOKENIZER;
  throw new UserError(
    "usage",
    `The tokenizer of ${path} is not known, as ${
      data.data_path || "its data"
    } has none beside it: name its tokenizer.json, ` +
      ".tiktoken file or table of characters with --tokenizer.",
  );
}
