// Tells what a job has from its site, and what was typed instead.
import { askProgram } from "../../ranks/job/scheduler.ts";
import { programAsCalled } from "../../base/shell.ts";
import { valuesWithoutSecrets } from "../../base/secrets.ts";
import { UserError } from "../../base/errors.ts";
import { ADDED, ownSite, settingsOfSite, siteNode } from "../../settings/sites.ts";
import { readSetting } from "../../settings/settings.ts";
import type { Resolved } from "../../settings/resolve.ts";
import type { Env } from "../../settings/environment.ts";
import { COMMANDS, type SchedulerName } from "./scheduler.ts";

export function siteLines(
  resolved: Resolved,
  command: string,
  scheduler: SchedulerName,
  architecture: string = Deno.build.arch,
): string[] {
  const { site, config, origin, originText } = resolved;
  if (!site) return [];
  if (site.scheduler !== null && site.scheduler !== scheduler) {
    const runs = site.scheduler.toUpperCase(), by = COMMANDS[site.scheduler];
    throw new UserError("usage", `Site ${site.name} runs ${runs}: make its jobs with \`hpctrain ${by}\`.`);
  }
  const job = { config, origin, preset: resolved.preset, command };
  const paths = settingsOfSite(site, job).map(({ path }) => path);
  const ours = paths.filter((path) => origin(path).kind === "site" || ADDED.includes(path));
  const typed = paths.filter((path) => !ours.includes(path));
  const node = siteNode(site, job);
  const foreign = node.architecture !== "" && node.architecture !== architecture;
  return [
    `Site ${site.name}: ${site.about || "a file of your own"}. From it:`,
    ...ours.map((path) => `  ${path}: ${shown(readSetting(config, path))}`).filter((line) =>
      !line.endsWith(": ")
    ),
    ...typed.map((path) => `  not ${path}: ${shown(readSetting(config, path))} (${originText(path)})`),
    ...(foreign
      ? [
        `  Its nodes are ${node.architecture}, and this executable is for ${architecture}: put the one for ${node.architecture} ` +
        `beside it, as ${programAsCalled()}-${node.architecture}, or the job ends at once.`,
      ]
      : []),
    ...site.notes.map((note) => `  ${note}`),
  ];
}

function shown(value: unknown): string {
  const shownValue = valuesWithoutSecrets(value);
  return Array.isArray(shownValue) ? shownValue.join("; ") : String(shownValue);
}

/** Nothing is ever taken from a site that nobody named. `ask`: SLURM is asked about the job anyway. */
export async function siteHint(env: Env, ask: boolean): Promise<string[]> {
  const config = ask ? await askProgram(["scontrol", "show", "config"]) : null;
  const cluster = /^ClusterName\s*=\s*(\S+)/m.exec(config ?? "")?.[1] ?? null;
  const site = ownSite(env, cluster);
  return site === null ? [] : [`${site.by}: --site ${site.name} knows this machine (docs/clusters.md).`];
}
