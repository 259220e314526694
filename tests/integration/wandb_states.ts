// What a server got from an upload, in a form in which the same is equal: where W&B leaves an order open, names are
// sorted, and what each upload makes anew is left out. Numbers and texts stay as they were spelled.
import type { StoredRun } from "./wandb_store.ts";

type Tokens = string | Map<string, Tokens> | Tokens[];

/** Every number and every text as its own characters, so that 1e+09 is not 1000000000. */
function tokensOf(text: string): Tokens {
  const words = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let at = 0;
  const value = (): Tokens => {
    const word = words[at++];
    if (word === "[") {
      const list: Tokens[] = [];
      for (; words[at] !== "]"; words[at] === "," && at++) list.push(value());
      at++;
      return list;
    }
    if (word !== "{") return word;
    const map = new Map<string, Tokens>();
    for (; words[at] !== "}"; words[at] === "," && at++) {
      const key = words[at];
      at += 2;
      map.set(key, value());
    }
    at++;
    return new Map([...map].sort(([a], [b]) => a < b ? -1 : 1));
  };
  return value();
}

const textOf = (tokens: Tokens): string =>
  typeof tokens === "string"
    ? tokens
    : tokens instanceof Map
    ? `{${[...tokens].map(([key, inner]) => `${key}:${textOf(inner)}`).join(",")}}`
    : `[${tokens.map(textOf).join(",")}]`;

export const sortedJson = (text: string): string => textOf(tokensOf(text));

/** "2026-11-22T00:25:15.839332 text" -> "text": W&B's own program puts the time of the upload there. */
const untimed = (line: string): string => line.replace(/\d{4}-\d\d-\d\dT[\d:.]+ /, "");

export function stateOf(run: StoredRun): Record<string, unknown> {
  const { lines, files, uploaded, entity, project, name, displayName, notes, group, jobType, host } = run;
  const { tags, commit, repo, preempting, complete, exitCode } = run;
  const decoder = new TextDecoder();
  const fileText = (path: string, bytes: Uint8Array) => {
    const text = decoder.decode(bytes);
    if (path === "config.yaml") return ownOfYaml(text);
    return path.endsWith(".json") ? sortedJson(text) : text;
  };
  return {
    ...{
      entity,
      project,
      name,
      displayName,
      notes,
      group,
      jobType,
      host,
      tags,
      commit,
      repo,
      complete,
      exitCode,
      preempting,
    },
    config: configOf(run.config!),
    history: lines.history.map(sortedJson),
    events: lines.events.map(sortedJson),
    summary: lines.summary.map(sortedJson),
    output: lines.output.map(untimed),
    files: Object.fromEntries([...files].sort().map(([path, bytes]) => [path, fileText(path, bytes)])),
    uploaded: [...uploaded].sort(),
  };
}

/** Without the versions of the program that uploads, and the writer's number where that is made up for an upload. */
function configOf(text: string): string {
  const config = tokensOf(text) as Map<string, Tokens>;
  const own = (config.get('"_wandb"') as Map<string, Tokens>).get('"value"') as Map<string, Tokens>;
  const versions = own.get('"t"') as Map<string, Tokens>;
  versions.delete('"12"');
  const features = versions.get('"3"');
  // 76: it came through `wandb sync`. Their order is open.
  const own3 = Array.isArray(features) ? features.filter((one) => one !== "76").sort() : [];
  if (own3.length > 0) versions.set('"3"', own3);
  else versions.delete('"3"');
  const where = own.get('"e"');
  if (where instanceof Map) own.set('"e"', [...where.values()]);
  const metrics = own.get('"m"');
  if (Array.isArray(metrics)) own.set('"m"', namedSteps(metrics).sort());
  return textOf(config);
}

/** A step is told by its place in the list, whose order is open: here by its name. */
function namedSteps(metrics: Tokens[]): string[] {
  const nameOf = (at: number) => (metrics[at - 1] as Map<string, Tokens>).get('"1"')!;
  return metrics.map((metric) => {
    const copy = new Map(metric as Map<string, Tokens>);
    if (copy.has('"5"')) copy.set('"5"', nameOf(Number(copy.get('"5"'))));
    return textOf(copy);
  });
}

/** The user's part of it: what comes under _wandb is compared as JSON. */
const ownOfYaml = (text: string): string => text.replace(/^_wandb:\n(?: .*\n)*/m, "_wandb: ...\n");
