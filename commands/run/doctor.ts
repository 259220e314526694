// `hpctrain doctor`: what is here, what would fail, and what to do about it.
import { parseOptions, splitOwnOptions } from "../../core/settings/options.ts";
import { resolveSettings } from "../../core/settings/resolve.ts";
import { examine, judgeFacts } from "../../core/cluster/doctor/examine.ts";
import { exitCode, type Finding, findingsSummary, findingsTable } from "../../core/cluster/doctor/check.ts";
import { EXIT } from "../../core/base/errors.ts";
import { valuesWithoutSecrets } from "../../core/base/secrets.ts";
import { VERSION } from "../../core/base/version.ts";
import { OPTIONS, SETTINGS, USAGE } from "../doctor.ts";

/** 0, or 1 where training here would fail. */
export async function doctor(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = splitOwnOptions(argv, OPTIONS);
  const { full } = parseOptions(own, OPTIONS, USAGE).options;
  const resolved = resolveSettings({ argv: rest, env, usage: USAGE, takes: SETTINGS });
  const { json, quiet } = resolved.config.output;
  const show = { json, quiet };
  const began = performance.now();
  if (full) {
    const { measureMachine } = await import("../../core/cluster/doctor/full/measure.ts");
    const { rank, lines, facts, measured, exclude } = await measureMachine(resolved, env, began);
    if (rank > 0) return exitCode(lines); // rank 0 has told it
    return printFindings(lines, { facts, measured, exclude }, show);
  }
  const facts = await examine(resolved, env);
  // Ranks of one node would all say the same.
  if (facts.allocation.localRank > 0) return EXIT.done;
  return printFindings(judgeFacts(facts), { facts }, show);
}

/** Quiet: what is wrong, and the verdict. */
function printFindings(
  lines: readonly Finding[],
  more: { exclude?: readonly string[] } & Record<string, unknown>,
  { json, quiet }: { json: boolean; quiet: boolean },
): number {
  const host = Deno.hostname(), summary = findingsSummary(lines), code = exitCode(lines);
  if (json) {
    const report = { doctor: VERSION, host, good: code === 0, verdict: summary, lines, ...more };
    console.log(JSON.stringify(valuesWithoutSecrets(report), null, 2));
    return code;
  }
  const shown = quiet ? lines.filter(({ state }) => state !== "good") : lines;
  if (!quiet) console.log(`hpctrain ${VERSION} on ${host}\n`);
  if (shown.length > 0) console.log(`${findingsTable(shown)}\n`);
  console.log(summary);
  const { exclude = [] } = more;
  if (exclude.length > 0) console.log(`Without those nodes: sbatch --exclude=${exclude.join(",")} ...`);
  return code;
}
