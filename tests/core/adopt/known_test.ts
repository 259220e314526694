// What a script's files and transforms are taken for, in its own Python.
import { assertEquals } from "@std/assert";
import { join } from "paths";
import { listOf } from "../../../core/data/augment/list.ts";
import { peer } from "../../peer.ts";

const PROGRAM = new URL("../../peers/adopt_known.py", import.meta.url).pathname;

Deno.test("files are known by the samples in them, and transforms become a list that --augment takes", () => {
  const folder = Deno.realPathSync(Deno.makeTempDirSync());
  const { success, stdout, stderr } = peer([PROGRAM], { cwd: folder }).outputSync();
  Deno.removeSync(folder, { recursive: true });
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  const { words, calm, ...found } = JSON.parse(new TextDecoder().decode(stdout));
  assertEquals(found, {
    archive: { path: "both.npz", columns: { x: ["inputs"], y: ["classes"] } },
    folder: { path: "apart", columns: { x: ["a"], y: ["b"] } },
    columns: { path: "text.csv", columns: { x: ["w", "u"], y: ["kind"] } },
    other: null,
    fewer: null,
    lambda: "Lambda()",
    mnist: { type: "mnist", data_path: join(folder, "d/MNIST/raw") },
    "mnist's test": null,
    window: true,
    "no window": false,
    view: true,
    "other sides": false,
    reshaped: [false, true],
    leaves: [["a", 0], ["b", 0]],
  });
  assertEquals(listOf(words)!.steps.map(({ kind }) => kind), [
    ...["random_resized_crop", "random_crop", "colour_jitter", "random_apply", "trivial_augment"],
    ...["horizontal_flip", "random_erasing"],
  ]);
  assertEquals(listOf(calm)!.steps.map(({ kind }) => kind), ["resize", "centre_crop", "centre_crop"]);
  assertEquals(listOf(words)!.normalise, { mean: [0.5], std: [0.25] });
});
