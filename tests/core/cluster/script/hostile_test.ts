// Scripts with hostile values in every place where a user's words go, executed by bash.
import { assertEquals } from "@std/assert";
import type { ScriptJob } from "../../../../core/cluster/script/job.ts";
import { renderPbs } from "../../../../core/cluster/script/pbs.ts";
import { renderSlurm } from "../../../../core/cluster/script/slurm.ts";
import { inPlace, JOB } from "./helpers.ts";
import { HOSTILE } from "./hostile.ts";

const RENDERERS = { sbatch: renderSlurm, qsub: renderPbs };
/** What a folder can be called, and a line of a scheduler can hold. */
const asFolder = (value: string) => value.replaceAll("/", "|").slice(0, 80).replace(/^\.*$/, "dots");
// deno-lint-ignore no-control-regex
const onOneLine = (value: string) => value.replaceAll(/[\u0000-\u001f\u007f]/g, "_");

for (const [command, render] of Object.entries(RENDERERS)) {
  Deno.test(`200 hostile values arrive unchanged through ${command}'s scripts: as arguments, names, paths and variables`, async () => {
    await inPlace(async ({ folder, stub, run }) => {
      for (const [i, value] of HOSTILE.entries()) {
        const program = stub(`programs ${i}/${asFolder(value)}/hpctrain`);
        const words = ["train", "--wandb-run-name", value, `--data-path=${value}`, "--", value];
        const job: ScriptJob = {
          ...JOB,
          made: { ...JOB.made, command: ["hpctrain", command, ...words] },
          name: value,
          program: [program],
          words,
          logs: `${folder}/logs ${i}/${onOneLine(asFolder(value))}`,
          site: { ...JOB.site, env: [`HOSTILE=${value}`], modules: [value] },
          inherited: [["WANDB_NOTES", value]],
        };
        const script = render(job).replace("#!/bin/bash -l", "#!/bin/bash");
        const { code, said, words: got, env } = await run(script, { LR: value });
        assertEquals(code, 0, `${JSON.stringify(value)}: ${said}\n${script}`);
        assertEquals(got, [...words, ...(value === "" ? [] : [`--lr=${value}`])], script);
        assertEquals([env.HOSTILE ?? "", env.WANDB_NOTES ?? ""], [value, value]);
        const modules = Deno.readTextFileSync(`${folder}/modules`).split("\0").slice(0, -1);
        assertEquals(modules, ["load", value]);
      }
      assertEquals([...Deno.readDirSync(folder)].some(({ name }) => name === "owned"), false);
    });
  });
}
