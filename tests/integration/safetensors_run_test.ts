// Runs whose checkpoints are safetensors, in one file and in several: they go on, are judged and looked into as others.
import { createHash } from "node:crypto";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { openCheckpoint } from "../../core/checkpoint/open.ts";
import { writePickle } from "../../core/checkpoint/pickle_writer.ts";
import type { Value } from "../../core/checkpoint/value.ts";
import { eventsOf, inTemp, run, succeed, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const RUN = [...TINY, "--dropout=0.2", "--ema=0.9", "--lr=0.01", "--scheduler=constant"];
const SAFE = "--checkpoint-format=safetensors";

/** Sums of all that must be equal. */
function stateOf(path: string): string[] {
  using file = openCheckpoint(path);
  const root = file.root as Map<string, Value>;
  const own = root.get("hpctrain") as Map<string, Value>;
  const parts = [
    root.get("model_state_dict")!,
    root.get("optimizer_state_dict")!,
    own.get("ema_state_dict")!,
    own.get("cursor")!,
  ];
  const { bytes, storages } = writePickle(parts);
  const sum = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
  return [sum(bytes), ...storages.map((storage) => sum(storage.read(0, storage.byteLength)))];
}

Deno.test("a run in safetensors goes on from them, and ends with the bits of a run in .pt that never stopped", () =>
  inTemp(async (cwd) => {
    await succeed([...RUN, "--run-name=straight", "--epochs=3"], { cwd });
    await succeed([...RUN, SAFE, "--run-name=safe", "--epochs=1", "--save-every-epoch"], { cwd });
    const { stdout } = await succeed([...RUN, SAFE, "--run-name=safe", "--epochs=3", "--resume=auto"], {
      cwd,
    });
    assertSentence("integration/safetensors_run: resuming checkpoints safe_latest", stdout);
    const at = (name: string) => join(cwd, "checkpoints", name);
    assertEquals(stateOf(at("safe_latest.safetensors")), stateOf(at("straight_latest.pt")));
    assertEquals([...Deno.readDirSync(join(cwd, "checkpoints"))].map(({ name }) => name).sort(), [
      "checkpoint_epoch_1.safetensors",
      "safe_best.safetensors",
      "safe_epoch_1.safetensors",
      "safe_latest.safetensors",
      "straight_best.pt",
      "straight_latest.pt",
    ]);
    // The same run goes on in the other format, from shards.
    await succeed(["convert", "checkpoints/safe_latest.safetensors", "s.ckpt", "--whole", "--shards=3"], {
      cwd,
    });
    await succeed([...RUN, "--checkpoint-format=pt", "--epochs=4", "--resume=s.ckpt"], { cwd });
    await succeed([...RUN, "--epochs=4", "--resume=checkpoints/straight_latest.pt"], { cwd });
    assertEquals(stateOf(at("safe_latest.pt")), stateOf(at("straight_latest.pt")));
  }));

Deno.test("eval, inspect --verify and --init-from take safetensors and shards as they take .pt", () =>
  inTemp(async (cwd) => {
    await succeed([...RUN, SAFE, "--run-name=r"], { cwd });
    const latest = "checkpoints/r_latest.safetensors";
    await succeed(["convert", latest, "r.ckpt", "--whole", "--shards=2"], { cwd });
    const { val_loss } = eventsOf(cwd, "r").findLast(({ kind }) => kind === "eval")!;
    for (const path of [latest, "r.ckpt"]) {
      const judged = await succeed(["eval", path, "--threads=1", "--json"], { cwd });
      assertEquals(JSON.parse(judged.stdout).val_loss, val_loss);
      const seen = await succeed(["inspect", path, "--verify"], { cwd });
      assertStringIncludes(seen.stdout, "verified: every checksum is right");
      assertStringIncludes(seen.stdout, "model_state_dict.0.weight");
      const begun = await succeed([...RUN, `--init-from=${path}`, "--max-steps=1"], { cwd });
      assertStringIncludes(begun.stdout, `Weights from ${path}`);
    }
    const shard = join(cwd, "r.ckpt", "model-00002-of-00002.safetensors");
    const bytes = Deno.readFileSync(shard);
    bytes[bytes.length - 3] ^= 1;
    Deno.writeFileSync(shard, bytes);
    const { code, stderr } = await run(["inspect", "r.ckpt", "--verify"], { cwd });
    assertEquals(code, 8);
    assertStringIncludes(stderr, "the file was damaged after it was written");
  }));
