// One flipped bit in a file whose checksums stand in it: every command that reads the file ends with code 8 and names
// the file and the tensor.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { FileBytes } from "../../core/base/file_bytes.ts";
import { openZip } from "../../core/base/zip.ts";
import { type EntryStorage, openExported } from "../../core/models/exported/archive.ts";
import { readSafetensors } from "../../core/checkpoint/safetensors.ts";
import { filesIn, inTemp, run, succeed, TINY } from "./program.ts";

const RUN = [...TINY, "--data-type=synthetic", "--ema=0.9", "--lr=0.01"];

/** Flips a bit in the middle of a tensor, and gives a function that mends it. */
function damage(path: string, tensor: string): () => void {
  const good = Deno.readFileSync(path), header = 8 + new DataView(good.buffer).getUint32(0, true);
  const entries = JSON.parse(new TextDecoder().decode(good.subarray(8, header)));
  const [from, to] = entries[tensor].data_offsets;
  return flip(path, good, header + ((from + to) >> 1));
}

function flip(path: string, good: Uint8Array, at: number): () => void {
  const bytes = good.slice();
  bytes[at] ^= 1;
  Deno.writeFileSync(path, bytes);
  return () => Deno.writeFileSync(path, good);
}

async function refused(cwd: string, argv: string[], ...parts: string[]): Promise<void> {
  const before = filesIn(cwd).filter((name) => !name.includes("logs/"));
  const { code, stderr } = await run(argv, { cwd });
  assertEquals(code, 8, `${argv.join(" ")}: ${stderr}`);
  for (const part of parts) assertStringIncludes(stderr, part, argv.join(" "));
  const made = filesIn(cwd).filter((name) => !name.includes("logs/") && !before.includes(name));
  assertEquals(made, [], argv.join(" "));
}

/** What reads weights, whoever wrote the file's other parts. */
const READERS = (path: string): string[][] => [
  ["eval", path, "--threads=1"],
  [...RUN, `--init-from=${path}`, "--run-name=next"],
  ["predict", path, "--data-type=synthetic", "--out=answers.npz", "--threads=1"],
  ["export", path, "out.pt"],
  ["export", path, "out.safetensors"],
  ["export", path, "out.pt2"],
  ["convert", path, "converted.pt"],
  ["convert", path, "converted.safetensors"],
  ["convert", path, "converted.pt", "--whole"],
  ["inspect", path, "--verify"],
];

Deno.test("a flipped bit in weights of ours ends every command with code 8 and a sentence that names file and tensor", () =>
  inTemp(async (cwd) => {
    await succeed([...RUN, "--run-name=r"], { cwd });
    await succeed(["export", "checkpoints/r_latest.pt", "weights.safetensors"], { cwd });
    await succeed(["convert", "checkpoints/r_latest.pt", "full.safetensors"], { cwd });
    const path = "full.safetensors", file = join(cwd, path);
    const names = [...namesIn(file)];
    assert(names.length >= 4);
    const [first, middle, last] = [names[0], names[names.length >> 1], names.at(-1)!];
    const readers = READERS(path).filter(([command, , out]) => !(command === "export" && out === "out.pt2"));
    for (const argv of readers) {
      // Who finds the last one has read them all.
      for (const tensor of argv === readers[0] ? [first, middle, last] : [last]) {
        const mend = damage(file, tensor);
        await refused(cwd, argv, path, tensor);
        mend();
      }
      const good = Deno.readFileSync(file);
      const mend = flip(file, good, 8 + new TextDecoder().decode(good.subarray(8)).indexOf('"shape":[') + 9);
      await refused(cwd, argv, path);
      mend();
    }
  }));

Deno.test("a run's own checkpoint with a flipped bit is found wherever its weights, averages or optimizer are read", () =>
  inTemp(async (cwd) => {
    await succeed([...RUN, "--checkpoint-format=safetensors", "--run-name=r"], { cwd });
    const path = "checkpoints/r_latest.safetensors", file = join(cwd, path);
    const names = [...namesIn(file)];
    const average = names.findLast((name) => name.startsWith("ema."))!;
    const weight = names.find((name) => name.startsWith("model."))!;
    const moment = names.find((name) => name.startsWith("optimizer.exp_avg_sq."))!;
    const mend = damage(file, average);
    // --init-from begins with the weights themselves, and the averages are what a run is judged by.
    const readers = READERS(path).filter((argv) => !argv.some((word) => word.startsWith("--init-from")));
    for (const argv of readers) {
      if (argv[0] !== "convert" || argv.includes("--whole")) await refused(cwd, argv, path, average);
    }
    mend();
    const mendWeight = damage(file, weight);
    await refused(cwd, [...RUN, `--init-from=${path}`, "--run-name=next"], path, weight);
    await refused(cwd, ["convert", path, "converted.safetensors"], path, weight);
    mendWeight();
    const mendMoment = damage(file, moment);
    await refused(cwd, [...RUN, `--resume=${path}`, "--epochs=2"], path, moment);
    await refused(cwd, ["convert", path, "converted.safetensors", "--whole"], path, moment);
    mendMoment();
    await succeed(["convert", path, "r.ckpt", "--whole", "--shards=2"], { cwd });
    const shard = [1, 2].map((k) => `r.ckpt/model-0000${k}-of-00002.safetensors`)
      .find((one) => [...namesIn(join(cwd, one))].includes(average))!;
    damage(join(cwd, shard), average);
    await refused(cwd, ["eval", "r.ckpt", "--threads=1"], shard, average);
    await refused(cwd, ["convert", "r.ckpt", "again.pt", "--whole"], shard, average);
    await refused(cwd, ["inspect", "r.ckpt", "--verify"], shard, average);
  }));

Deno.test("a flipped bit in the weights of an exported program ends a run that would begin with them, by the weight's name", () =>
  inTemp(async (cwd) => {
    await succeed([...RUN, "--run-name=r"], { cwd });
    await succeed(["export", "checkpoints/r_latest.pt", "m.pt2"], { cwd });
    const path = join(cwd, "m.pt2");
    const entries = [...weightsIn(path)];
    assert(entries.length >= 4);
    for (const { name, at, size } of [entries[0], entries[entries.length >> 1], entries.at(-1)!]) {
      const mend = flip(path, Deno.readFileSync(path), at + (size >> 1));
      await refused(cwd, [...RUN, "--model=m.pt2", "--run-name=next"], "m.pt2", `(${name}) is wrong`);
      mend();
    }
    await succeed([...RUN, "--model=m.pt2", "--run-name=next"], { cwd });
  }));

function* weightsIn(path: string): Iterable<{ name: string; at: number; size: number }> {
  using archive = openExported(path);
  const file = new FileBytes(path);
  try {
    const zip = openZip(file);
    for (const [name, { storage }] of archive.weights) {
      const entry = zip.entries.get((storage as EntryStorage).entry)!;
      yield { name, at: zip.startOf(entry), size: entry.size };
    }
  } finally {
    file.close();
  }
}

/** In the order of the file. */
function namesIn(path: string): Iterable<string> {
  using file = readSafetensors(path);
  return [...file.tensors.keys()];
}
