// The variables that a script knows stand for flags that exist.
import { assert, assertEquals } from "@std/assert";
import { OF_THE_SIZE, overridesOf, uselessFor } from "../../../../core/cluster/script/body.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { ALL_SETTINGS, FLAGS } from "../../../../core/settings/settings.ts";
import { ROOT, run } from "../../../integration/program.ts";

const plain = ALL_SETTINGS.flatMap(({ setting }) => setting.plain ?? []);

Deno.test("the variables without a prefix are those of the contract, and docs/clusters.md names each", () => {
  const contract =
    "EPOCHS BATCH_SIZE LR LEARNING_RATE DATA_TYPE DATA_DIR DATA_PATH TRAIN_SAMPLES CHECKPOINT_DIR RESUME " +
    "GPUS NODES";
  assertEquals(plain.toSorted(), contract.split(" ").toSorted());
  const page = Deno.readTextFileSync(`${ROOT}docs/clusters.md`);
  for (const variable of plain) assert(new RegExp(`\\b${variable}\\b`).test(page), variable);
});

Deno.test("a training job takes each of them, and our own of the flags that stand in the script", () => {
  const overrides = overridesOf(
    "train",
    resolveSettings({ argv: ["--seed", "3", "--nodes", "2", "--time", "1"], env: {} }),
  );
  const names = overrides.map(([name]) => name);
  assertEquals(
    names.filter((name) => !name.startsWith("HPCTRAIN_")).concat(OF_THE_SIZE).sort(),
    plain.toSorted(),
  );
  assertEquals(names.filter((name) => name.startsWith("HPCTRAIN_")), [
    "HPCTRAIN_TRAINING_SEED",
    "HPCTRAIN_SEED",
  ]);
  for (const [, flag] of overrides) assert(FLAGS.has(flag), flag);
});

Deno.test("every variable of a job that makes data is a flag of generate-data, and the others of the list are refused", async () => {
  const { stdout } = await run(["generate-data", "--help"]);
  const overrides = overridesOf("generate-data", resolveSettings({ argv: [], env: {} }));
  for (const [, flag] of overrides) assert(stdout.includes(`--${flag} `), flag);
  const known = [...overrides.map(([name]) => name), ...uselessFor("generate-data"), ...OF_THE_SIZE];
  for (const name of plain) assert(known.includes(name), name);
});
