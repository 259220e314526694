// Writes the pages of docs/reference that are made from declarations: the commands, the exit codes, the kinds of
// data and the sites. `deno run --allow-all scripts/reference.ts` makes them anew; a test compares them.
import { type Command, type CommandEntry, COMMANDS } from "../commands/mod.ts";
import { GROUPS } from "../commands/help.ts";
import { EXIT, type ExitKind } from "../core/base/errors.ts";
import { FORMATS } from "../core/data/open/formats.ts";
import { loadSite, type Site, SITE_NAMES, type SiteNode } from "../core/settings/sites.ts";
import { DATA_KINDS, type DataKind } from "../core/settings/formats.ts";

const FOLDER = new URL("../docs/reference/", import.meta.url);

/** The first text is what the code means, the second what usually helps. */
const MEANINGS: Readonly<Record<ExitKind, readonly [string, string]>> = {
  done: ["done", ""],
  usage: ["bad usage or configuration", "the message names the flag, or the file with line and column"],
  data: ["the data", "`hpctrain inspect DATA` says what is there"],
  memory: ["out of memory", "`--amp bf16`, `--gradient-checkpointing`, a smaller `--batch-size`"],
  communication: ["communication: a rank was lost, or a time-out", "start it again with `--resume auto`"],
  numerics: [
    "numerics: the loss or the weights are not finite",
    "a lower `--lr`, `--clip-norm 1`, `--warmup`",
  ],
  environment: ["the environment: no usable libtorch, driver or device", "`hpctrain doctor`"],
  checkpoint: ["a checkpoint that is damaged, missing or does not fit", "`hpctrain inspect FILE --verify`"],
  internal: ["an error inside hpctrain", "please report what was printed"],
  stopped: ["stopped on request, with a checkpoint", "start it again with `--resume auto`"],
};
/** Codes that the shell or the kernel gives, and no error of ours. */
const OTHERS = [
  ["130", "a second Ctrl-C: ended at once, without a save", "start it again with `--resume auto`"],
  ["133", "the address space is limited", "`ulimit -v unlimited`: see [the executable](libtorch.md)"],
  ["137", "killed, mostly by the kernel for memory", "`hpctrain status RUN` says what is known of it"],
];

export function exitCodesPage(): string {
  const rows = (Object.entries(EXIT) as [ExitKind, number][])
    .map(([kind, code]) => [String(code), ...MEANINGS[kind]])
    .concat(OTHERS)
    .sort(([a], [b]) => Number(a) - Number(b));
  return page(
    "Exit codes",
    "The number with which every command ends. In a shell it is `$?`. A run of several ranks ends with the code of " +
      "the rank that failed first. [When something fails](../guides/when-something-fails.md) goes by symptom.",
    table(["code", "meaning", "what helps"], rows),
  );
}

export async function commandsPage(): Promise<string> {
  const entries = new Map(COMMANDS.map((entry) => [entry.name, entry]));
  const blocks: string[] = [];
  for (const [purpose, names] of Object.entries(GROUPS)) {
    blocks.push(`## ${purpose[0].toUpperCase()}${purpose.slice(1)}`);
    for (const name of names) {
      const entry = entries.get(name);
      if (entry) blocks.push(commandText(entry, await entry.load()));
    }
  }
  return page(
    "Commands",
    "What `hpctrain COMMAND --help` says, of every command. `--trace-errors` works everywhere: it adds where in the " +
      "program an error came from. The flags of training are in [Settings](../settings.md).",
    blocks.join("\n\n"),
  );
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

export function formatsTable(): string {
  const rows = (Object.keys(DATA_KINDS) as DataKind[]).map((kind) => {
    const { endings, path } = FORMATS[kind];
    const named = path === null ? "no path" : path || "no path, or a folder";
    return [code(kind), endings.map(code).join(", "), DATA_KINDS[kind], named];
  });
  return table(["kind", "endings", "what it is", "`--data-path` names"], rows);
}

/** The page of data with its table made anew. */
export const withFormats = (page: string): string => withPart(page, "formats", formatsTable());

function withPart(page: string, name: string, part: string): string {
  const marks = [`<!-- ${name}: written by scripts/reference.ts -->`, `<!-- end of ${name} -->`];
  const [before, rest] = page.split(marks[0]);
  const after = rest.split(marks[1])[1];
  return [before, marks[0], "\n\n", part, "\n\n", marks[1], after].join("");
}

export function sitesPart(): string {
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

/** Every page or part of one that is made here: its file, and its text before it is formatted. */
export async function referencePages(): Promise<Record<string, string>> {
  return {
    "commands.md": await commandsPage(),
    "exit-codes.md": exitCodesPage(),
    "data.md": withFormats(Deno.readTextFileSync(new URL("data.md", FOLDER))),
    "sites.md": withPart(Deno.readTextFileSync(new URL("sites.md", FOLDER)), "sites", sitesPart()),
  };
}

function page(title: string, intro: string, body: string): string {
  return `# ${title}\n\n<!-- This page is written by scripts/reference.ts. -->\n\n${intro}\n\n${body}\n`;
}

const code = (text: string): string => `\`${text}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((c) => c.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

/** As `deno fmt` leaves it, so that the file and the page can be compared. */
export async function formatted(markdown: string): Promise<string> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--quiet", "--ext=md", "--line-width=110", "-"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(markdown));
  await writer.close();
  const { success, stdout } = await child.output();
  if (!success) throw new Error("deno fmt has refused a page");
  return new TextDecoder().decode(stdout);
}

if (import.meta.main) {
  for (const [name, text] of Object.entries(await referencePages())) {
    Deno.writeTextFileSync(new URL(name, FOLDER), await formatted(text));
  }
}
