// A job as the thread does it: files of both formats whose sums another thread made, and weights that are refused.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { basename } from "paths";
import { Buffer } from "node:buffer";
import {
  help,
  newFlag,
  saveContent,
  type SaveJob,
  type SharedWork,
  writeCheckpoint,
} from "../../../../core/checkpoint/background/job.ts";
import { openCheckpoint } from "../../../../core/checkpoint/open.ts";
import { readPt, writePt } from "../../../../core/checkpoint/pt.ts";
import { writeWhole } from "../../../../core/checkpoint/safetensors_writer.ts";
import {
  dict,
  memoryStorage,
  OrderedDict,
  tensorBytes,
  TensorData,
  Tuple,
  type Value,
} from "../../../../core/checkpoint/value.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { filesIn } from "../../../integration/program.ts";
import { inFolder } from "../python.ts";

const LARGE = 20 << 20;

/** Jobs have addresses alone: their memory has to stay. */
const kept = new Map<string, Float32Array[]>();

/** Two tensors, the first's memory a copy that is made by the job. */
function jobAt(path: string, first: Float32Array<ArrayBuffer>, second: Float32Array<ArrayBuffer>): SaveJob {
  const copy = new Float32Array(first.length);
  kept.set(path, [first, copy, second]);
  const place = (numbers: Float32Array<ArrayBuffer>) => ({
    address: BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(numbers))),
    bytes: numbers.byteLength,
  });
  const tensor = (numbers: Float32Array<ArrayBuffer>) =>
    new TensorData("f32", [numbers.length], memoryStorage(new Uint8Array(numbers.buffer)));
  const tree = dict({ first: tensor(copy), second: tensor(second) });
  const numbers = [copy, second];
  const { content, storages } = saveContent(tree, {
    ...{ path, parameters: [] },
    place: (storage) => place(numbers.find(({ buffer }) => buffer === storage.read(0, 0).buffer)!),
  });
  return {
    ...{ path, content, storages, links: [], ofEpoch: null, best: null, copied: newFlag() },
    copies: [{ from: place(first), to: place(copy) }],
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
        const { bytes } = writeCheckpoint(jobAt(path, a, b), callHelp);
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
      const wrongly = (work: SharedWork) => {
        help(work);
        new Uint8Array(work.board, work.board.byteLength - 32).fill(1);
      };
      writeCheckpoint(jobAt(path, numbers(LARGE, 0.5), numbers(LARGE, 3)), wrongly);
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
      for (let at = 0; at < 11; at++) writeCheckpoint(jobAt(path, weights(at, number), other));
    }
    const before = Deno.readFileSync(path);
    for (const number of [NaN, Infinity, -Infinity]) {
      for (let at = 0; at < 11; at++) {
        const error = assertThrows(
          () => writeCheckpoint(jobAt(path, weights(at, number), other)),
          UserError,
          "first",
        );
        assertEquals(error.kind, "numerics");
      }
    }
    assertEquals(Deno.readFileSync(path), before);
  }),
);

/** What a process killed at the moment when the state was to take its place would have left. */
function killedBeforeItsPlace(path: string, job: SaveJob): void {
  const { renameSync } = Deno;
  Deno.renameSync = (from, to) => {
    if (to === path) throw new Error("killed");
    renameSync(from, to);
  };
  try {
    assertThrows(() => writeCheckpoint(job), Error, "killed");
  } finally {
    Deno.renameSync = renameSync;
  }
}

for (const ending of ["pt", "safetensors"]) {
  Deno.test(
    `a .${ending} has its other names, and old epochs are gone, before it takes its place: a kill between loses no best`,
    inFolder((folder) => {
      const [path, best] = [`${folder}/latest.${ending}`, `${folder}/best.${ending}`];
      const epoch = (n: number) => `${folder}/r_epoch_${n}.${ending}`;
      const plain = (n: number) => `checkpoint_epoch_${n}.${ending}`;
      const job = (scale: number, n: number) => ({
        ...jobAt(path, numbers(64, scale), numbers(64, 1)),
        links: [best, epoch(n)],
        ofEpoch: { folder, run: "r", epoch: n, ending, keep: 1, older: [] },
      });
      writeCheckpoint(job(1, 1));
      const before = Deno.readFileSync(path);
      assertEquals(Deno.readFileSync(best), before);
      killedBeforeItsPlace(path, job(2, 2));
      assertEquals(Deno.readFileSync(path), before);
      assertEquals(filesIn(folder), [plain(2), best, epoch(2), path].map((path) => basename(path)).sort());
      const left = Deno.readFileSync(best);
      assertEquals(Deno.readFileSync(epoch(2)), left);
      writeCheckpoint(job(2, 2)); // the run comes to that state again
      for (const one of [path, best, epoch(2)]) assertEquals(Deno.readFileSync(one), left);
    }),
  );
}

Deno.test(
  "a name that can't be given fails the save, and the state takes its place all the same",
  inFolder((folder) => {
    const path = `${folder}/latest.pt`, taken = `${folder}/best.pt`;
    Deno.mkdirSync(`${taken}/full`, { recursive: true });
    const job = { ...jobAt(path, numbers(64, 1), numbers(64, 1)), links: [taken] };
    assertEquals(assertThrows(() => writeCheckpoint(job), UserError).kind, "checkpoint");
    openCheckpoint(path).close();
  }),
);

Deno.test(
  "a safetensors file that is written from the tree has the bytes of one whose tree went through a pickle",
  inFolder((folder) => {
    const numbers = (seed: number) => Float32Array.from({ length: 6 }, (_, i) => i * seed);
    const tensor = (seed: number) =>
      new TensorData("f32", [2, 3], memoryStorage(new Uint8Array(numbers(seed).buffer)));
    const tied = tensor(1);
    const tree = dict({
      epoch: 3,
      model_state_dict: new OrderedDict([["a.weight", tied], ["b.weight", tied], ["c", tensor(2)]]),
      optimizer_state_dict: dict({
        state: new Map([[0, dict({ exp_avg: tensor(3) })], [1, dict({ exp_avg: tensor(4) })]]) as Value,
        param_groups: [
          dict({ lr: 1e-3, betas: new Tuple([0.9, 0.999]), params: [0, 1], param_names: ["a", "c"] }),
        ],
      }),
      odd: [null, true, -0, NaN, 2 ** 53, -(2n ** 80n), "text \u00e9", new Uint8Array([0, 255])],
    });
    const [direct, pickled, path] = ["direct", "pickled", "path"].map((name) =>
      `${folder}/${name}.safetensors`
    );
    writePt(path, tree);
    using file = readPt(path);
    writeWhole(pickled, file.root);
    const { content, storages } = saveContent(tree, {
      ...{ path: direct, parameters: [] },
      place: (storage) => storage.read(0, storage.byteLength),
    });
    const job = {
      path: direct,
      content,
      storages,
      copies: [],
      copied: newFlag(),
      finite: [],
      links: [],
      ofEpoch: null,
      best: null,
    };
    writeCheckpoint(job);
    assertEquals(Deno.readFileSync(direct), Deno.readFileSync(pickled));
  }),
);
