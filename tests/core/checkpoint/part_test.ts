import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { memoryStorage, tensorBytes, TensorData } from "../../../core/checkpoint/value.ts";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { removeOldEpochs } from "../../../core/checkpoint/epoch_files.ts";
import {
  type CheckpointPart,
  ELSEWHERE,
  linkOrCopy,
  reportFailure,
  writePart,
} from "../../../core/checkpoint/sharded_writer.ts";
import { UserError } from "../../../core/base/errors.ts";
import { filesIn } from "../../integration/program.ts";
import { inFolder } from "./python.ts";
import { assertSentence } from "../../sentences.ts";

const WORLD = 3;

const part = (rank: number, generation: string, patience = 10): CheckpointPart => ({
  rank,
  world: WORLD,
  generation,
  patience,
  ending: new SharedArrayBuffer(4),
});

/** Tensor i of value i + `save` is rank i's; the others know its name and shape alone. */
function content(rank: number, save: number, count = WORLD) {
  const tensors = new Map(Array.from({ length: count }, (_, i) => {
    const bytes = new Uint8Array(4).fill(i + save);
    return [`t${i}`, new TensorData("u8", [4], i === rank ? memoryStorage(bytes) : ELSEWHERE)];
  }));
  return { tensors, metadata: {}, rankOf: (name: string) => Number(name.slice(1)) };
}

const writeAs = (folder: string, rank: number, save: number, generation = `${save}-a`, patience?: number) =>
  writePart(folder, part(rank, generation, patience), content(rank, save));

function writeAll(folder: string, save: number): number {
  for (const rank of [1, 2]) writeAs(folder, rank, save);
  return writeAs(folder, 0, save);
}

/** What its tensors are filled with, every checksum compared. */
function read(folder: string): number[] {
  using file = openCheckpoint(folder);
  file.verify();
  return [...(file.root as Map<string, TensorData>).values()].map((tensor) => tensorBytes(tensor)[3]);
}

Deno.test(
  "parts that ranks wrote alone are a checkpoint when rank 0 has written its index, and a new save takes its place",
  inFolder((folder) => {
    const size = writeAll(folder, 1);
    assertEquals(read(folder), [1, 2, 3]);
    const sizes = () => filesIn(folder).map((name) => Deno.statSync(`${folder}/${name}`).size);
    assertEquals(size, sizes().reduce((a, b) => a + b));
    for (const rank of [1, 2]) {
      writeAs(folder, rank, 5);
      assertEquals(read(folder), [1, 2, 3]);
    }
    writeAs(folder, 0, 5);
    assertEquals(read(folder), [5, 6, 7]);
    assertEquals(filesIn(folder), [
      "model-5-a-00001-of-00003.safetensors",
      "model-5-a-00002-of-00003.safetensors",
      "model-5-a-00003-of-00003.safetensors",
      "model.safetensors.index.json",
    ]);
  }),
);

Deno.test(
  "a part that does not come in time fails the save: the checkpoint before stays, and the next one removes the rest",
  inFolder((folder) => {
    writeAll(folder, 1);
    writeAs(folder, 1, 5);
    const error = assertThrows(() => writeAs(folder, 0, 5, "5-a", 0.2), UserError);
    assertEquals(error.kind, "checkpoint");
    assertSentence("core/checkpoint/part: rank part did", error.message);
    assertEquals(read(folder), [1, 2, 3]);
    assertEquals(filesIn(folder).length, 3 + 1 + 2);
    // A killed writer's too; and it goes before anything is written, since the disk may be full of it.
    Deno.writeTextFileSync(`${folder}/.model-5-a-00003-of-00003.safetensors.tmp-host-1-abcdef01`, "");
    for (const rank of [1, 2]) writeAs(folder, rank, 7);
    assertThrows(() => writeAs(folder, 0, 7, "8-a", 0), UserError, "Rank 1's part and 1 more");
    assertEquals(filesIn(folder).filter((name) => name.includes("5-a")), []);
    assertEquals(read(folder), [1, 2, 3]);
    writeAll(folder, 9);
    assertEquals([read(folder), filesIn(folder).length], [[9, 10, 11], 4]);
  }),
);

Deno.test(
  "a rank that could not write its part says why, and rank 0 does not wait for it",
  inFolder((folder) => {
    writeAll(folder, 1);
    for (
      const [error, kind] of [[new UserError("numerics", "no numbers"), "numerics"], [new Error("oh"), null]]
    ) {
      reportFailure(folder, part(1, "5-a"), error);
      const told = assertThrows(() => writeAs(folder, 0, 5)) as UserError;
      assertMatch(told.message, /Rank 1: (no numbers|Error: oh)/);
      assertEquals(told.kind ?? null, kind);
    }
    Deno.writeTextFileSync(`${folder}/.model-6-a-00003-of-00003.safetensors.failed`, ""); // on a full disk
    const { kind, message } = assertThrows(() => writeAs(folder, 0, 6), UserError);
    assertEquals(kind, "checkpoint");
    assertMatch(message, /^Rank 2: its part could not be written/);
    assertEquals(read(folder), [1, 2, 3]);
    writeAll(folder, 9);
    assertEquals(filesIn(folder).length, 4);
  }),
);

Deno.test(
  "a rank whose word is refused too says it again until the folder takes it",
  inFolder(async (parent) => {
    const folder = `${parent}/late`;
    const made = new Deno.Command("sh", { args: ["-c", "sleep 0.3; mkdir late"], cwd: parent }).spawn();
    reportFailure(folder, part(1, "5-a"), new UserError("numerics", "no numbers"));
    await made.status;
    assertMatch(assertThrows(() => writeAs(folder, 0, 5), UserError).message, /Rank 1: no numbers/);
  }),
);

Deno.test(
  "rank 0 waits for moments only when ranks come to their end",
  inFolder((folder) => {
    const own = part(0, "1-a", 1000);
    new Int32Array(own.ending)[0] = 1;
    const began = performance.now();
    const error = assertThrows(() => writePart(folder, own, content(0, 1)), UserError);
    assertMatch(error.message, /did not come before the ranks ended/);
    assert(performance.now() - began < 100_000); // its patience is a thousand seconds
  }),
);

Deno.test(
  "an index that can't be read keeps what is there until the next one is written",
  inFolder((folder) => {
    writeAll(folder, 1);
    Deno.writeTextFileSync(`${folder}/model.safetensors.index.json`, "{");
    assertThrows(() => writeAs(folder, 0, 5, "5-a", 0), UserError);
    assertEquals(filesIn(folder).filter((name) => name.includes("1-a")).length, 3);
    writeAll(folder, 5);
    assertEquals([read(folder), filesIn(folder).length], [[5, 6, 7], 4]);
  }),
);

Deno.test(
  "a second name for it is a folder with the same files, replaced as a whole; an old epoch's goes, other files stay",
  inFolder((folder) => {
    const [latest, best] = [`${folder}/r_latest.ckpt`, `${folder}/r_best.ckpt`];
    for (const save of [1, 5]) {
      writeAll(latest, save);
      linkOrCopy(latest, best);
      for (const epoch of [save, save + 1]) linkOrCopy(latest, `${folder}/r_epoch_${epoch}.ckpt`);
    }
    writeAll(latest, 7);
    assertEquals([read(latest), read(best)], [[7, 8, 9], [5, 6, 7]]);
    assertEquals(filesIn(best).length, 4);
    Deno.writeTextFileSync(`${folder}/r_epoch_2.ckpt/notes.txt`, "");
    removeOldEpochs({ folder, run: "r", epoch: 6, ending: "ckpt", keep: 1, older: [] });
    assertEquals(
      filesIn(folder).filter((name) => name.startsWith("r_epoch")).map((name) => name.split("/")[0]),
      [
        "r_epoch_2.ckpt",
        ...Array(4).fill("r_epoch_6.ckpt"),
      ],
    );
    assertEquals(read(`${folder}/r_epoch_6.ckpt`), [5, 6, 7]);
  }),
);

Deno.test(
  "a second name is given by an index that is not in its place yet",
  inFolder((folder) => {
    const [latest, best] = [`${folder}/r_latest.ckpt`, `${folder}/r_best.ckpt`];
    writeAll(latest, 1);
    for (const rank of [1, 2]) writeAs(latest, rank, 5);
    const ready = (index: string) => {
      linkOrCopy(latest, best, index);
      assertEquals([read(latest), read(best)], [[1, 2, 3], [5, 6, 7]]);
    };
    writePart(latest, part(0, "5-a"), { ...content(0, 5), ready });
    assertEquals([read(latest), read(best)], [[5, 6, 7], [5, 6, 7]]);
  }),
);

Deno.test(
  "a rank whose share has no tensor takes part all the same",
  inFolder((folder) => {
    for (const save of [1, 5]) {
      for (const rank of [2, 1, 0]) writePart(folder, part(rank, `${save}-a`), content(rank, save, 2));
      linkOrCopy(folder, `${folder}/best.ckpt`);
      for (const path of [folder, `${folder}/best.ckpt`]) assertEquals(read(path), [save, save + 1]);
    }
  }),
);
