// Reads what a cluster wants of job scripts: a file of data for each, embedded for six of them, or the user's own.
import { isMap, isScalar, LineCounter, type Node, parseDocument } from "../../deps/yaml.ts";
import { UserError } from "../base/errors.ts";
import { expandCores } from "../base/topology.ts";
import { didYouMean } from "../base/suggest.ts";
import { readText } from "./yaml.ts";
import { type Assignment, formatOrigin, fromData, isTyped, type Origin } from "./values.ts";
import { type Config, findSetting, settingKeys } from "./settings.ts";

export const SITE_NAMES = ["lumi", "frontier", "jupiter", "alps", "perlmutter", "leonardo"] as const;

export interface Site {
  readonly name: string;
  readonly about: string;
  readonly scheduler: "slurm" | "pbs" | null;
  readonly sources: readonly string[];
  readonly leftOut: readonly string[];
  readonly notes: readonly string[];
  /** A login node is the site's where a variable has one of these values. */
  readonly knownBy: Readonly<Record<string, readonly string[]>>;
  readonly gpu: SiteNode | null;
  readonly cpu: SiteNode | null;
  readonly source: string;
}

export interface SiteNode {
  /** As `uname -m` has it; empty where the file does not say. */
  readonly architecture: string;
  readonly gpus: number;
  /** CPUs that a job can have, as the scheduler counts them. */
  readonly cpus: number;
  readonly domains: number;
  /** CPUs that the system keeps for itself. */
  readonly reserved: readonly number[];
  /** CPUs near the GPU of each rank of a full node; empty where srun's own binding is right. */
  readonly rankCpus: readonly (readonly number[])[];
  readonly gpusBy: "gpus-per-node" | "gres";
  readonly settings: readonly Assignment[];
  /** They hold where a job takes fewer GPUs than the node has. */
  readonly part: readonly Assignment[];
}

/** A name, or a file of the user's own. */
export function loadSite(requested: string, from: Origin): Site {
  const own = /\.ya?ml$|\//.test(requested);
  if (!own && SITE_NAMES.every((known) => known !== requested)) {
    const hint = didYouMean(requested, SITE_NAMES) || ` The sites are ${SITE_NAMES.join(", ")}.`;
    throw new UserError(
      "usage",
      `${formatOrigin(from)}: unknown site "${requested}".${hint} A file of your own: --site my-site.yaml.`,
    );
  }
  const source = own
    ? readText(requested)
    : Deno.readTextFileSync(new URL(`../../presets/sites/${requested}.yaml`, import.meta.url));
  return parseSite(
    source,
    own ? requested.replace(/^.*\/|\.ya?ml$/g, "") : requested,
    own ? requested : `site ${requested}`,
  );
}

const OF_FILE = ["about", "scheduler", "sources", "left_out", "notes", "known_by", "gpu", "cpu", "cluster"];
const OF_NODE = [
  ...["architecture", "gpus", "cpus", "domains", "reserved", "rank_cpus", "gpus_by"],
  ...["cluster", "part"],
];

export function parseSite(source: string, name: string, called: string): Site {
  const lines = new LineCounter();
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false, schema: "core" });
  const file = new SiteFile(document.contents, called, name, (offset) => lines.linePos(offset).line);
  const problem = document.errors[0];
  if (problem) throw file.wrong(problem.pos[0], `it is no YAML (${problem.message})`);
  return file.site(source);
}

class SiteFile {
  constructor(
    readonly root: unknown,
    readonly called: string,
    readonly name: string,
    readonly line: (offset: number) => number,
  ) {}

  wrong(at: number | unknown, sentence: string): UserError {
    const offset = typeof at === "number" ? at : (at as Node | null)?.range?.[0] ?? 0;
    return new UserError(
      "usage",
      `${this.called}:${this.line(offset)}: ${sentence}${/[.?]$/.test(sentence) ? "" : "."}`,
    );
  }

  site(source: string): Site {
    const top = this.#keys(this.root, OF_FILE, "a site");
    const scheduler = this.#word(top.scheduler, "scheduler", ["slurm", "pbs"]);
    const common = this.#settings(top.cluster, "cluster");
    const site = {
      name: this.name,
      about: this.#text(top.about, "about"),
      scheduler: (scheduler || null) as Site["scheduler"],
      sources: this.#list(top.sources, "sources"),
      leftOut: this.#list(top.left_out, "left_out"),
      notes: this.#list(top.notes, "notes"),
      knownBy: this.#knownBy(top.known_by),
      gpu: this.#node(top.gpu, "gpu", common),
      cpu: this.#node(top.cpu, "cpu", common),
      source,
    };
    if (!site.gpu && !site.cpu) {
      throw this.wrong(this.root, 'a site has a section "gpu:" or "cpu:", and this has none');
    }
    return site;
  }

  #knownBy(node: unknown): Site["knownBy"] {
    if (node === undefined) return {};
    if (!isMap(node)) throw this.wrong(node, "known_by holds variables, such as NERSC_HOST: [perlmutter]");
    return Object.fromEntries(
      node.items.map((
        { key, value },
      ) => [String((key as Node).toJSON()), this.#list(value, "known_by")]),
    );
  }

  #node(node: unknown, kind: "gpu" | "cpu", common: readonly Assignment[]): SiteNode | null {
    if (node === undefined) return null;
    const of = this.#keys(node, OF_NODE, kind);
    const gpus = kind === "gpu" ? this.#count(of.gpus, "gpus", node) : 0;
    const cpus = this.#count(of.cpus, "cpus", node);
    const domains = of.domains === undefined ? 1 : this.#count(of.domains, "domains", node);
    const reserved = this.#cpuList(of.reserved, "reserved");
    const rankCpus = this.#data(of.rank_cpus) === undefined
      ? []
      : this.#list(of.rank_cpus, "rank_cpus").map((list) => this.#cpus(list, of.rank_cpus));
    this.#refuseBinding(rankCpus, reserved, gpus, of.rank_cpus);
    return {
      architecture: this.#word(of.architecture, "architecture", ["x86_64", "aarch64"]),
      gpus,
      cpus,
      domains,
      reserved,
      rankCpus,
      gpusBy: this.#word(of.gpus_by, "gpus_by", ["gpus-per-node", "gres"]) === "gres"
        ? "gres"
        : "gpus-per-node",
      settings: [...common, ...this.#settings(of.cluster, `${kind}.cluster`)],
      part: this.#settings(of.part, `${kind}.part`),
    };
  }

  /** A wrong list would bind two ranks to the same cores, or one to those that no job can have. */
  #refuseBinding(
    ranks: readonly (readonly number[])[],
    reserved: readonly number[],
    gpus: number,
    at: unknown,
  ): void {
    if (ranks.length === 0) return;
    if (ranks.length !== gpus) {
      throw this.wrong(
        at,
        `rank_cpus has ${ranks.length} lists, and the node ${gpus} GPUs: give one for each`,
      );
    }
    const seen = new Set(reserved);
    for (const [rank, cpus] of ranks.entries()) {
      const twice = cpus.find((cpu) => seen.has(cpu));
      if (twice !== undefined) {
        const whose = reserved.includes(twice) ? "reserved" : "another rank's";
        throw this.wrong(at, `rank_cpus gives CPU ${twice} to rank ${rank}, and it is ${whose}`);
      }
      for (const cpu of cpus) seen.add(cpu);
    }
  }

  /** Only settings of jobs belong to a site. */
  #settings(node: unknown, where: string): Assignment[] {
    if (node === undefined) return [];
    const origin: Origin = { kind: "site", name: this.name };
    const known = settingKeys("cluster").filter((key) => key !== "site");
    return Object.entries(this.#keys(node, known, where)).map(([key, value]) => {
      try {
        return fromData(findSetting(`cluster.${key}`)!, this.#data(value), origin);
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        throw this.wrong(value, error.message.slice(formatOrigin(origin).length + 2));
      }
    });
  }

  #keys(node: unknown, known: readonly string[], where: string): Record<string, unknown> {
    if (!isMap(node)) throw this.wrong(node, `${where} holds keys such as "${known[0]}:"`);
    return Object.fromEntries(
      node.items.map(({ key, value }) => {
        const name = isScalar(key) ? String(key.value) : "";
        if (!known.includes(name)) {
          const hint = didYouMean(name, known) || ` It has ${known.join(", ")}.`;
          throw this.wrong(key, `${where} has no "${name}".${hint}`);
        }
        return [name, value];
      }),
    );
  }

  #data(node: unknown): unknown {
    return node === undefined || node === null ? undefined : (node as Node).toJSON();
  }

  #text(node: unknown, key: string): string {
    const text = this.#data(node) ?? "";
    if (typeof text === "string") return text;
    throw this.wrong(node, `${key} is a text`);
  }

  #word(node: unknown, key: string, words: readonly string[]): string {
    const word = this.#text(node, key);
    if (word === "" || words.includes(word)) return word;
    throw this.wrong(node, `${key} is ${words.join(" or ")}, but got "${word}"`);
  }

  #list(node: unknown, key: string): string[] {
    const list = this.#data(node) ?? [];
    const plain = (item: unknown) => ["string", "number"].includes(typeof item);
    if (Array.isArray(list) && list.every(plain)) return list.map(String);
    throw this.wrong(node, `${key} is a list of texts`);
  }

  #count(node: unknown, key: string, at: unknown): number {
    const count = this.#data(node);
    if (Number.isSafeInteger(count) && Number(count) > 0) return Number(count);
    throw this.wrong(node ?? at, `${key} is a whole number from 1 on`);
  }

  #cpuList(node: unknown, key: string): number[] {
    const list = this.#data(node);
    if (list === undefined) return [];
    if (typeof list === "string" || typeof list === "number") return this.#cpus(String(list), node);
    throw this.wrong(node, `${key} is a list of CPUs such as 0-3,8`);
  }

  #cpus(list: string, at: unknown): number[] {
    if (/^\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*$/.test(list)) return expandCores(list);
    throw this.wrong(at, `"${list}" is no list of CPUs such as 0-3,8`);
  }
}

/** A site's choices depend on these. */
interface SiteJob {
  readonly config: Config;
  readonly origin: (path: string) => Origin;
  readonly preset: string | null;
  readonly command: string;
}

/** Commands that compute nothing on GPUs. */
const WITHOUT_GPUS = ["generate-data", "pack"];

const GRES = /^gpu(?::(.+))?:(\d+)$/;

export function siteNode(site: Site, { config, command }: SiteJob): SiteNode {
  const { cluster, distributed, training } = config;
  const requested = distributed.gpus_per_node > 0 || cluster.gres !== "";
  const onGpus = requested || (training.device !== "cpu" && !WITHOUT_GPUS.includes(command));
  const node = onGpus ? site.gpu ?? (requested || training.device === "cuda" ? null : site.cpu) : site.cpu;
  if (node) return node;
  throw new UserError(
    "usage",
    `Site ${site.name} says nothing of nodes ${onGpus ? "with" : "without"} GPUs: ` +
      (onGpus ? "leave the GPUs out, or the site." : "give --device cuda, or leave the site out."),
  );
}

/** The settings that a job has from its site, below those that anybody typed. */
export function settingsOfSite(site: Site, job: SiteJob): Assignment[] {
  const node = siteNode(site, job);
  const origin: Origin = { kind: "site", name: site.name };
  const set = (path: string, value: unknown): Assignment => ({ path, value, origin });
  const { config, preset } = job;
  if (node.gpus === 0) {
    const ranks = typed(job, "cluster.tasks_per_node") ? config.cluster.tasks_per_node : node.domains;
    return [
      set("cluster.tasks_per_node", ranks),
      set("cluster.cpus_per_task", Math.max(1, Math.floor(node.cpus / Math.max(1, ranks)))),
      ...node.settings,
    ];
  }
  const [, type = config.cluster.gpu_type, count = "0"] = GRES.exec(config.cluster.gres) ?? [];
  const requested = config.distributed.gpus_per_node || Number(count);
  const gpus = requested || (preset === "single-gpu" ? 1 : node.gpus);
  const full = gpus >= node.gpus;
  const bound = full && node.rankCpus.length > 0 && config.cluster.layout === "task-per-gpu";
  return joined([
    set("distributed.gpus_per_node", gpus),
    ...(node.gpusBy === "gres" ? [set("cluster.gres", `gpu:${type && `${type}:`}${gpus}`)] : []),
    set("cluster.cpus_per_task", Math.max(1, Math.floor(node.cpus / node.gpus))),
    ...(bound ? [set("cluster.srun_args", [cpuMasks(node.rankCpus)])] : []),
    ...node.settings,
    ...(full ? [] : node.part),
  ]);
}

const typed = ({ origin }: SiteJob, path: string): boolean => isTyped(origin(path));

/** Here a second list adds to the first, as a user's adds to a site's. */
export const ADDED = ["env", "setup", "sbatch_args", "qsub_args", "srun_args"].map((key) => `cluster.${key}`);

function joined(assignments: readonly Assignment[]): Assignment[] {
  const by = new Map<string, Assignment>();
  for (const assignment of assignments) {
    const { path, value } = assignment, before = by.get(path);
    const both = before && ADDED.includes(path) ? [...before.value as string[], ...value as string[]] : value;
    by.set(path, { ...assignment, value: both });
  }
  return [...by.values()];
}

/** srun gives each local task its own mask, in hexadecimal digits. */
export const cpuMasks = (ranks: readonly (readonly number[])[]): string =>
  `--cpu-bind=mask_cpu:${ranks.map((cpus) => `0x${maskOf(cpus).toString(16)}`).join(",")}`;

const maskOf = (cpus: readonly number[]): bigint => cpus.reduce((mask, cpu) => mask | 1n << BigInt(cpu), 0n);

/** The site whose login node this is, and what tells so. Null where nothing does. */
export function ownSite(
  env: Readonly<Record<string, string | undefined>>,
  cluster: string | null = null,
): { name: string; by: string } | null {
  for (const name of SITE_NAMES) {
    if (cluster?.toLowerCase() === name) return { name, by: `SLURM's ClusterName is ${cluster}` };
    const { knownBy } = loadSite(name, { kind: "default" });
    for (const [variable, values] of Object.entries(knownBy)) {
      const value = env[variable];
      if (value && values.includes(value)) return { name, by: `${variable} is ${value}` };
    }
  }
  return null;
}
