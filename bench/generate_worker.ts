// Our side of the generate benchmark; bench/peers/generate.py is the other, and says what the arguments are.
import { openCheckpoint } from "../core/checkpoint/open.ts";
import { weightsOf } from "../core/checkpoint/weights.ts";
import { gptDecoder } from "../core/predict/decoder.ts";
import { generate } from "../core/predict/generate.ts";
import { resolveSettings } from "../core/settings/resolve.ts";
import { openDevice } from "../core/train/device.ts";
import { answerRounds } from "./contestant.ts";

const [path, heads, threads, prompt] = Deno.args;
const { config } = resolveSettings({ argv: ["--threads", threads, "--device", "cpu"], env: {} });
const { device } = openDevice(config);
using file = openCheckpoint(path);
const { tensors } = weightsOf(file.root, path, false);
const decoder = gptDecoder(tensors, Number(heads), { path, device });
const options = {
  prompt: JSON.parse(prompt),
  count: 1,
  end: null,
  temperature: 0,
  topK: 0,
  topP: 1,
  seed: 1,
};

await answerRounds((most) => {
  const [{ tokens }] = generate(decoder, { ...options, most }).texts;
  return tokens.reduce((sum, token, step) => sum + (step + 1) * token, 0);
});
