// The parts of pages that are made from declarations. A page has the mark `<!-- made: NAME -->`, and the site has the part
// there: every setting, command, site and number of an event.
import { type Command, type CommandEntry, COMMANDS } from "../../commands/mod.ts";
import { GROUPS } from "../../commands/help.ts";
import { EVENT_FIELDS, type EventField } from "../../core/run/events.ts";
import { settingsTables } from "../../core/settings/reference.ts";
import { loadSite, type Site, SITE_NAMES, type SiteNode } from "../../core/settings/sites.ts";

/** The part of each name. */
export async function madeParts(): Promise<ReadonlyMap<string, string>> {
  return new Map([
    ["settings", settingsTables()],
    ["commands", await commandsPart()],
    ["sites", sitesPart()],
    ["event fields", eventFieldsTable()],
  ]);
}

/** A page with each mark replaced by its part. */
export function withParts(page: string, parts: ReadonlyMap<string, string>): string {
  return page.replaceAll(/^<!-- made: (.*?) -->$/gm, (_, name: string) => {
    const part = parts.get(name);
    if (part === undefined) throw new Error(`no part is named "${name}"`);
    return part;
  });
}

async function commandsPart(): Promise<string> {
  const entries = new Map(COMMANDS.map((entry) => [entry.name, entry]));
  const blocks: string[] = [];
  for (const [purpose, names] of Object.entries(GROUPS)) {
    blocks.push(`## ${purpose[0].toUpperCase()}${purpose.slice(1)}`);
    for (const name of names) {
      const entry = entries.get(name);
      if (entry) blocks.push(commandText(entry, await entry.load()));
    }
  }
  return blocks.join("\n\n");
}

function commandText({ name, summary }: CommandEntry, command: Command): string {
  const options = Object.entries(command.options ?? {})
    .map(([option, { value, help }]) => [code(`--${option}${value ? ` ${value}` : ""}`), help]);
  return [
    `### ${name}`,
    `${summary[0].toUpperCase()}${summary.slice(1)}.`,
    "```text\n" + command.usage + "\n```",
    ...(options.length > 0 ? [table(["option", "what it does"], options)] : []),
    ...(command.settings ? [settingsOf(command)] : []),
    "```bash\n" + command.examples.join("\n") + "\n```",
  ].join("\n\n");
}

function settingsOf({ settings }: Command): string {
  return settings === true
    ? "Beside these it takes every [setting](../settings.md)."
    : "Beside these it takes the [settings](../settings.md) that have to do with it.";
}

function eventFieldsTable(): string {
  const rows = Object.entries<Record<string, EventField>>(EVENT_FIELDS).flatMap(([kind, fields]) =>
    Object.entries(fields).map(([name, { unit, wandb = name, about }]) => [
      code(kind),
      code(name),
      unit === "value" ? "" : unit,
      wandb === null ? "" : code(wandb),
      about,
    ])
  );
  return table(["kind", "number", "unit", "at W&B", "what it is"], rows);
}

function sitesPart(): string {
  const sites = SITE_NAMES.map((name) => loadSite(name, { kind: "default" }));
  const rows = sites.map(({ name, gpu, cpu }) => [code(name), ofNode(gpu), ofNode(cpu)]);
  return [
    table(["`--site`", "a node with GPUs", "a node for ranks on CPUs"], rows),
    ...sites.map(siteText),
  ].join("\n\n");
}

function ofNode(node: SiteNode | null): string {
  if (!node) return "";
  const { gpus, cpus, architecture, domains, gpusBy, rankCpus } = node;
  return gpus > 0
    ? `${gpus} GPUs (${code(`--${gpusBy}`)}), ${cpus / gpus} CPUs a rank, ${architecture}${
      rankCpus.length > 0 ? ", ranks bound by masks" : ""
    }`
    : `${cpus} CPUs, ${domains} ranks, one a NUMA domain, ${architecture}`;
}

function siteText({ name, about, gpu, cpu, notes, leftOut, sources }: Site): string {
  const settings = (title: string, node: SiteNode | null, of: "settings" | "part" = "settings") =>
    node && node[of].length > 0
      ? [
        `${title}:`,
        table(
          ["setting", "value"],
          node[of].map((
            { path, value },
          ) => [
            code(path),
            [value].flat().map((one) => one === "" ? "none" : code(String(one))).join("<br>"),
          ]),
        ),
      ]
      : [];
  const list = (title: string, items: readonly string[]) =>
    items.length > 0 ? [`${title}:`, items.map((item) => `- ${item}`).join("\n")] : [];
  return [
    `### ${name}`,
    `${about}.`,
    ...settings("Jobs on GPUs", gpu),
    ...settings("On fewer GPUs than a node has, instead", gpu, "part"),
    ...settings("Jobs on CPUs", cpu),
    ...list("It says", notes),
    ...list("Left out", leftOut),
    ...list("From", sources),
  ].join("\n\n");
}

const code = (text: string): string => `\`${text}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((c) => c.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
