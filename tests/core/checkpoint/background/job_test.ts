// A job as the thread does it: files of both formats whose sums another thread made, and weights that are refused.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { type FileJob, newFlag, write } from "../../../../core/checkpoint/background/job.ts";
import { help, type Work } from "../../../../core/checkpoint/background/team.ts";
import { openCheckpoint } from "../../../../core/checkpoint/open.ts";
import { writePickle } from "../../../../core/checkpoint/pickle_writer.ts";
import { tensorBytes } from "../../../../core/checkpoint/tensor_bytes.ts";
import { dict, memoryStorage, TensorData, type Value } from "../../../../core/checkpoint/value.ts";
import { UserError } from "../../../../core/errors.ts";
import { inFolder } from "../python.ts";

const LARGE = 20 << 20;

/** Jobs have addresses alone: their memory has to stay. */
const kept = new Map<string, Float32Array[]>();

/** Two tensors, the first's memory a copy that is made by the job. */
function jobAt(path: string, first: Float32Array<ArrayBuffer>, second: Float32Array<ArrayBuffer>): FileJob {
  const copy = new Float32Array(first.length);
  kept.set(path, [first, copy, second]);
  const place = (numbers: Float32Array<ArrayBuffer>) => ({
    address: BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(numbers))),
    bytes: numbers.byteLength,
  });
  const tensor = (numbers: Float32Array<ArrayBuffer>) =>
    new TensorData("f32", [numbers.length], memoryStorage(new Uint8Array(numbers.buffer)));
  const { bytes: pickle } = writePickle(dict({ first: tensor(copy), second: tensor(second) }));
  return {
    ...{ path, pickle, links: [], retire: null, copied: newFlag() },
    copies: [{ from: place(first), to: place(copy) }],
    storages: [place(copy), place(second)],
    finite: [{ name: "first", storage: 0 }],
  };
}

const numbers = (bytes: number, seed: number) =>
  new Float32Array(bytes / 4).map((_, i) => Math.fround((i % 1000) * seed));
const tensorIn = (root: Value, name: string) =>
  tensorBytes((root as Map<string, Value>).get(name) as TensorData);

for (const ending of ["pt", "safetensors"]) {
  Deno.test(
    `a large .${ending} is the same with help and without, and its sums are right`,
    inFolder((folder) => {
      const [a, b] = [numbers(LARGE, 0.5), numbers(LARGE, 3)];
      const files = [undefined, () => {}, help].map((callHelp, i) => {
        const path = `${folder}/${i}.${ending}`;
        const { bytes } = write(jobAt(path, a, b), callHelp);
        assertEquals(bytes, Deno.statSync(path).size);
        using file = openCheckpoint(path);
        file.verify();
        assert(Buffer.compare(tensorIn(file.root, "first"), new Uint8Array(a.buffer)) === 0);
        assert(Buffer.compare(tensorIn(file.root, "second"), new Uint8Array(b.buffer)) === 0);
        return Deno.readFileSync(path);
      });
      for (const file of files) assert(Buffer.compare(file, files[0]) === 0);
    }),
  );

  Deno.test(
    `the sums in a large .${ending} are those of the other thread`,
    inFolder((folder) => {
      const path = `${folder}/a.${ending}`;
      const wrongly = (work: Work) => {
        help(work);
        new Uint8Array(work.board, work.board.byteLength - 32).fill(1);
      };
      write(jobAt(path, numbers(LARGE, 0.5), numbers(LARGE, 3)), wrongly);
      using file = openCheckpoint(path);
      assertThrows(() => file.verify(), UserError, "SHA-256");
    }),
  );
}

Deno.test(
  "weights with one number that is not finite, wherever it is, are not written; the largest and smallest are",
  inFolder((folder) => {
    const path = `${folder}/a.pt`, other = numbers(64, 1);
    const weights = (at: number, number: number) => numbers(44, 0.25).fill(number, at, at + 1);
    for (const number of [3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -0]) {
      for (let at = 0; at < 11; at++) write(jobAt(path, weights(at, number), other));
    }
    const before = Deno.readFileSync(path);
    for (const number of [NaN, Infinity, -Infinity]) {
      for (let at = 0; at < 11; at++) {
        const error = assertThrows(() => write(jobAt(path, weights(at, number), other)), UserError, "first");
        assertEquals(error.kind, "numerics");
      }
    }
    assertEquals(Deno.readFileSync(path), before);
  }),
);
