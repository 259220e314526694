// `scripts/storm faults`: every file call of a save with every errno, within one process and under whole runs of one and two
// ranks. Prints what became of it, and ends with 1 where something was not as promised.
import { fromFileUrl } from "paths";
import type { Told } from "../core/train/file_faults_program.ts";
import { buildFileFaults } from "../native/file_faults.ts";
import { faultStorm } from "./file_faults.ts";
import { inTemp } from "./program.ts";

const wrong: string[] = [];

const program = fromFileUrl(new URL("../core/train/file_faults_program.ts", import.meta.url));
await Promise.all(["pt", "safetensors", "sharded"].map((format) =>
  inTemp(async (folder) => {
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--quiet", program, "all", format],
      env: buildFileFaults(folder).env,
      stderr: "inherit",
    }).output();
    const told: Record<string, Told> = JSON.parse(new TextDecoder().decode(stdout));
    const { faults, failed, saved, wrong: found } = told[format];
    console.log(
      `${format}: ${failed} saves failed with a warning, ${saved} succeeded all the same, ${found.length} wrong`,
    );
    console.log(Object.entries(faults).map(([call, count]) => `  ${call} ${count}`).join("\n"));
    wrong.push(...found.map((sentence) => `${format}: ${sentence}`));
  })
));
for (const ranks of [1, 2]) {
  for (const refused of [false, true]) {
    await inTemp(async (cwd) => {
      const { code, faults, missed, saved, ended, stderr } = await faultStorm(cwd, {
        ranks,
        every: true,
        refused,
      });
      const kept = refused ? saved < ended : saved === ended;
      console.log(
        `${ranks} ranks: ${faults} calls failed, exit code ${code}, step ${saved} of ${ended} is saved`,
      );
      const codes = !refused ? [75] : ranks === 1 ? [8] : [8, 5]; // mpirun's is that of the rank that ended first
      if (!codes.includes(code) || !kept || missed.length > 0) {
        wrong.push(
          `${ranks} ranks: code ${code}, step ${saved} of ${ended}; not made: ${missed.join()}\n${stderr}`,
        );
      }
    });
  }
}
for (const sentence of wrong) console.error(sentence);
Deno.exit(wrong.length > 0 ? 1 : 0);
