// Examples that a report shows, beside what the model gives of the same samples.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { encodePng } from "../../../core/data/preview/picture.ts";
import { PLAIN_BYTES } from "../../../core/data/text/tokenizer.ts";
import { plainPart } from "../../../core/data/source/source.ts";
import { readDiagnostics } from "../../../core/run/diagnostics.ts";
import { openDiagnostics } from "../../../core/train/held_diagnostics.ts";
import { examplesOf, textExamples } from "../../../core/train/examples.ts";
import { predicted } from "../../../core/train/media.ts";
import { noGrad } from "../../../ffi/autograd.ts";
import { fill_, toNumbers } from "../../../ffi/make.ts";
import { detach, softmax } from "../../../ffi/ops.ts";
import { keep, liveTensors, scope } from "../../../ffi/tensor.ts";
import { inFolder } from "../checkpoint/python.ts";
import { started } from "./started.ts";

const flags = (text: string) => text.split(" ");

const noise = (i: number) => (i * 2654435761 % 4294967296) / 4294967296;

Deno.test(
  "examples of pictures begin with the surest mistakes, and have the model's own classes and probabilities",
  inFolder(async (folder) => {
    for (const name of ["cat", "dog"]) {
      Deno.mkdirSync(join(folder, "pets", name), { recursive: true });
      for (let i = 0; i < 40; i++) {
        const rgb = Uint8Array.from(
          { length: 300 },
          (_, k) => 255 * noise(i * 977 + k * 13 + name.length),
        );
        Deno.writeFileSync(
          join(folder, "pets", name, `${i}.png`),
          encodePng({ width: 10, height: 10, rgb }),
        );
      }
    }
    const of =
      `--data-path ${folder}/pets --model simple-convnet --resize 8 --centre-crop 8 --validation-split 0.4 --batch-size 8`;
    await started(folder, flags(of), ({ data: { val }, pass }) => {
      const held = liveTensors(), examples = examplesOf(val!, pass);
      assertEquals([examples.length, liveTensors()], [12, held]);
      const wrong = examples.map(({ target, prediction }) => target[0] !== prediction[0]);
      assertEquals(wrong, wrong.toSorted((a, b) => Number(b) - Number(a)));
      for (const { name, target, prediction, probability, image } of examples) {
        const index = Number(name.replace("sample ", "")), id = val!.indices!.indexOf(index);
        const [label, shares] = scope(() => {
          const part = plainPart([id]), batch = val!.finish(val!.raw(part), part);
          return [toNumbers(batch.target)[0], [...toNumbers(softmax(predicted(pass, batch.input), 1))]];
        });
        assertEquals([target, prediction], [[label], [shares.indexOf(Math.max(...shares))]]);
        assert(Math.abs(probability! - Math.max(...shares)) < 1e-3);
        assert(Uint8Array.fromBase64(image!).length > 100);
      }
      return Promise.resolve();
    });
  }),
);

for (const views of [false, true]) {
  Deno.test(
    `epochs' ends that follow each other within a second are diagnosed once, by the weights that were judged${
      views ? ", where a state dict is of views" : ""
    }`,
    inFolder(async (folder) => {
      const of =
        "--data-type synthetic --model mlp --train-samples 64 --val-samples 8 --batch-size 32 --no-wandb";
      await started(folder, flags(of), ({ data: { val }, pass, config }) => {
        const { root } = pass.model, own = root.stateDict.bind(root);
        if (views) root.stateDict = () => own().map(([name, t]) => [name, keep(detach(t))]);
        const weight = pass.model.root.stateDict()[0][1], { host } = weight;
        const first = () => toNumbers(weight)[0];
        const moveTo = (value: number) => noGrad(() => fill_(weight, value));
        const answers = () => examplesOf(val!, pass).map(({ prediction }) => prediction);
        let now = 0;
        const diagnose = openDiagnostics(val, config.data, folder, () => now)!;
        const judged = (epoch: number, at: number, better = true, last = false) => {
          now = at;
          diagnose.judged(pass, { step: epoch, epoch, last, better, samples: 8, metrics: {}, sums: null });
          return readDiagnostics(folder)!.epoch;
        };
        moveTo(0.5);
        assertEquals(judged(1, 10), 1);
        moveTo(0.25);
        const wanted = answers();
        assertEquals(judged(2, 20), 1);
        moveTo(0.75);
        assertEquals(judged(3, 30, false), 1);
        assertEquals(judged(4, 1005, false), 2); // the next end would be later than a second
        assertEquals(readDiagnostics(folder)!.examples!.map(({ prediction }) => prediction), wanted);
        assertEquals([first(), weight.host], [0.75, host]);
        assertEquals([judged(5, 1010), judged(6, 1020), judged(7, 1030, true, true)], [2, 2, 7]);
        moveTo(0.5);
        assertEquals(judged(8, 1040), 7);
        diagnose.close();
        assertEquals([readDiagnostics(folder)!.epoch, first()], [8, 0.5]);
        diagnose.close(); // nothing is left
        assertEquals([judged(9, 9000), judged(10, 20_000)], [9, 10]); // long epochs never wait
        return Promise.resolve();
      });
    }),
  );
}

Deno.test(
  "a text has the first guess at each place, and how probable the token there was",
  inFolder(async (folder) => {
    const text = new TextEncoder().encode("It was a bright cold day in April. ".repeat(20));
    Deno.writeFileSync(join(folder, "story.bin"), text);
    const of =
      `--data-path ${folder}/story.bin --token-type uint8 --model gpt --layers 1 --embed 8 --heads 1 --context 12 --batch-size 8`;
    await started(folder, flags(of), ({ data: { val }, pass }) => {
      const held = liveTensors(), texts = textExamples(val!, pass);
      assertEquals([texts.length, liveTensors(), examplesOf(val!, pass)], [2, held, []]);
      for (const { tokens, guesses, probabilities } of texts) {
        assert("It was a bright cold day in April. ".repeat(3).includes(String.fromCharCode(...tokens)));
        assertEquals([guesses.length, probabilities.length], [12, 12]);
        for (const share of probabilities) assert(share > 0 && share < 1);
      }
      for (const { tokens, guesses, words } of textExamples(val!, pass, PLAIN_BYTES)) {
        assertEquals(tokens.map((token) => words![token]), tokens.map((token) => String.fromCharCode(token)));
        assert(guesses.every((token) => words![token] !== undefined));
      }
      return Promise.resolve();
    });
  }),
);
