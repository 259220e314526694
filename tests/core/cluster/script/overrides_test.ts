// The variables that a script knows stand for flags that exist.
import { assert } from "@std/assert";
import { overridesOf } from "../../../../core/cluster/script/overrides.ts";
import { FLAGS } from "../../../../core/config/tree.ts";
import { ROOT, run } from "../../../integration/program.ts";

Deno.test("every variable of a training job is a flag of training, and docs/slurm.md names it", () => {
  const page = Deno.readTextFileSync(`${ROOT}docs/slurm.md`);
  const overrides = overridesOf("train");
  assert(overrides.length > 15);
  for (const [variable, flag] of overrides) {
    assert(FLAGS.has(flag), flag);
    assert(new RegExp(`\\b${variable}\\b`).test(page), variable);
  }
});

Deno.test("every variable of a job that makes data is a flag of generate-data", async () => {
  const { stdout } = await run(["generate-data", "--help"]);
  for (const [, flag] of overridesOf("generate-data")) assert(stdout.includes(`--${flag} `), flag);
});
