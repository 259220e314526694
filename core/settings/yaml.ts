// YAML files become assignments, each with its line and column.
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type YAMLMap,
} from "../../deps/yaml.ts";
import { UserError } from "../base/errors.ts";
import { insteadOf } from "./options.ts";
import { type Assignment, formatOrigin, fromData, type Mistakes, type Origin, shownValue } from "./values.ts";
import { nearest } from "../base/suggest.ts";
import {
  allPaths,
  canonical,
  type Declared,
  findSetting,
  FLAGS,
  isSettingGroup,
  settingKeys,
} from "./settings.ts";

/** No honest file of settings has more; looking one up costs a walk over the file. */
const MAX_ALIASES = 100;

interface ParsedFile {
  readonly assignments: Assignment[];
  /** Only our own presets are expanded: expanding a stranger's file is a risk. */
  readonly extra: Record<string, () => unknown>;
}

/** Presets and recipes describe themselves by these; a user's file that began as one may keep them. */
const PRESET_KEYS = ["about", "layout", "from"] as const;

export function readSettings(path: string, mistakes: Mistakes): ParsedFile {
  return parseSettings(readText(path), path, mistakes);
}

export function parseSettings(source: string, name: string, mistakes: Mistakes): ParsedFile {
  const lines = new LineCounter();
  const document = parse(source, name, lines);
  const at = (offset: number): Origin => {
    const { line, col } = lines.linePos(offset);
    return { kind: "file", name, line, column: col };
  };
  const problem = document.errors[0] ?? document.warnings[0];
  if (problem) {
    throw new UserError("usage", `${formatOrigin(at(problem.pos[0]))}: ${syntaxSentence(problem)}`);
  }
  const walker = new Walker(document, at, mistakes);
  walker.top(name);
  return walker;
}

function parse(source: string, name: string, lineCounter: LineCounter): Document {
  try {
    return parseDocument(source, {
      lineCounter,
      prettyErrors: false,
      schema: "core",
      strict: true,
      uniqueKeys: false, // It is quadratic there; the walk below finds them.
      version: "1.2",
    });
  } catch (error) {
    // The parser's own recursion overflows here; most of it ends in a document with errors instead.
    if (error instanceof RangeError) throw new UserError("usage", `${name}: ${TOO_DEEP}`, { cause: error });
    throw error;
  }
}

class Walker implements ParsedFile {
  readonly assignments: Assignment[] = [];
  readonly extra: Record<string, () => unknown> = {};
  #aliases = 0;
  readonly #seen = new Map<string, Origin>();
  constructor(
    readonly document: Document,
    readonly at: (offset: number) => Origin,
    readonly mistakes: Mistakes,
  ) {}

  top(name: string): void {
    const root = this.document.contents;
    if (root === null || (isScalar(root) && root.value === null)) {
      throw new UserError(
        "usage",
        `${name}: the file holds no settings. Expected sections such as "training:".`,
      );
    }
    if (!isMap(root)) {
      const at = this.#textAt(root);
      throw new UserError(
        "usage",
        `${at}: expected sections such as "training:", but found ${kindOf(root)}.${
          isTable(root) ? " A file that --config reads is written by `hpctrain config ... --yaml`." : ""
        }`,
      );
    }
    this.#group(root, "");
  }

  #originOf(node: unknown): Origin {
    return this.at((node as Node | null)?.range?.[0] ?? 0);
  }

  #textAt(node: unknown): string {
    return formatOrigin(this.#originOf(node));
  }

  #group(map: YAMLMap, group: string): void {
    const names = new Set<string>();
    for (const pair of map.items) this.mistakes.try(() => this.#pair(pair, group, names));
  }

  #pair(pair: Pair, group: string, names: Set<string>): void {
    const key = isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
    if (names.has(key)) {
      throw new UserError(
        "usage",
        `${this.#textAt(pair.key)}: ${JSON.stringify(key)} is given twice in the same section. Remove one.`,
      );
    }
    names.add(key);
    const path = canonical(group === "" ? key : `${group}.${key}`);
    const value = this.#resolve(pair.value), declared = findSetting(path);
    if (group === "" && PRESET_KEYS.some((known) => known === key)) {
      this.extra[key] = () => (value as Node).toJS(this.document);
    } else if (isSettingGroup(path) && isMap(value)) {
      this.#group(value, path);
    } else if (declared) {
      this.#setting(declared, path, value, this.#originOf(pair.key));
    } else if (isSettingGroup(path)) {
      if (!empty(value)) throw this.#notASection(path, value);
    } else {
      throw unknownKey(this.#textAt(pair.key), group, key);
    }
  }

  #setting(declared: Declared, path: string, node: unknown, keyAt: Origin): void {
    const earlier = this.#seen.get(declared.path);
    if (earlier) {
      throw new UserError(
        "usage",
        `${formatOrigin(keyAt)}: ${declared.path} is set twice in this file, first at ${
          formatOrigin(earlier)
        }.`,
      );
    }
    this.#seen.set(declared.path, keyAt);
    if (isSettingGroup(path) && empty(node)) return;
    const origin = empty(node) ? keyAt : this.#originOf(node);
    this.assignments.push(fromData(declared, this.#data(node, declared.setting.separator), origin));
  }

  #data(node: unknown, separator?: string): unknown {
    if (isScalar(node)) return node.value;
    if (isSeq(node)) {
      return node.items.map((item) => this.#resolve(item)).map((item) =>
        isScalar(item) ? item.value : separator && isMap(item) ? this.#asText(item) : {}
      );
    }
    return isMap(node) ? {} : null;
  }

  /** An item such as `norms: weight_decay=0` is a map to YAML, where nobody put quotes around it. */
  #asText({ items }: YAMLMap): unknown {
    const [{ key, value }] = items;
    return items.length === 1 && isScalar(key) && isScalar(value) ? `${key.value}: ${value.value}` : {};
  }

  #resolve(node: unknown): unknown {
    if (!isAlias(node)) return node;
    if (++this.#aliases > MAX_ALIASES) {
      throw new UserError(
        "usage",
        `${
          this.#textAt(node)
        }: more than ${MAX_ALIASES} YAML aliases (*name) in one file. Write the values out.`,
      );
    }
    const target = node.resolve(this.document);
    if (target) return target;
    throw new UserError(
      "usage",
      `${this.#textAt(node)}: no anchor &${node.source} stands before this alias.`,
    );
  }

  #notASection(path: string, value: unknown): UserError {
    const keys = settingKeys(path).slice(0, 3).join(", ");
    return new UserError(
      "usage",
      `${this.#textAt(value)}: ${path} is a section with keys such as ${keys}, but found ${kindOf(value)}.`,
    );
  }
}

function empty(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

/** The table of `hpctrain config` begins with the name of a section, alone on its line. */
const isTable = (node: unknown): boolean =>
  isScalar(node) && typeof node.value === "string" && settingKeys("").includes(node.value.split(/\s/, 1)[0]);

function kindOf(node: unknown): string {
  return isSeq(node) ? "a list" : isMap(node) ? "a map" : isScalar(node) ? shownValue(node.value) : "nothing";
}

function unknownKey(at: string, group: string, key: string): UserError {
  if (key === "<<") {
    return new UserError("usage", `${at}: YAML merge keys (<<) are not supported. Write the keys out.`);
  }
  const known = settingKeys(group);
  const instead = insteadOf(key.replaceAll("_", "-"));
  const near = instead ? null : spelt(group, key) ?? nearest(key, known) ?? elsewhere(key);
  const place = group === "" ? "at the top of the file" : `in ${group}`;
  const hint = near ? `Did you mean "${near}"?` : instead ?? `Known keys are ${known.join(", ")}.`;
  return new UserError("usage", `${at}: unknown key ${shownValue(key)} ${place}. ${hint}`);
}

/** Another program's name becomes ours, as it is written in this group. */
function spelt(group: string, key: string): string | null {
  const flag = FLAGS.get(key.replaceAll("_", "-"));
  if (!flag?.spelling) return null;
  const { path } = flag.declared;
  return group !== "" && path.startsWith(`${group}.`) ? path.slice(group.length + 1) : path;
}

function elsewhere(key: string): string | null {
  return allPaths().find((path) => path.endsWith(`.${key}`)) ?? null;
}

const TOO_DEEP = "brackets, keys or dashes nest too deep. Settings nest 3 deep.";

function syntaxSentence(problem: { code: string; message: string }): string {
  if (problem.message.includes("call stack")) {
    return TOO_DEEP;
  }
  if (problem.code === "MULTIPLE_DOCS") return "a second YAML document starts here. Expected one a file.";
  return `not readable as YAML: ${problem.message.replace(/\.?$/, ".")}`;
}

/** A file of settings is a page; more is a mistake, and slow to refuse later. */
const MAX_BYTES = 256 * 1024;

export function readText(path: string): string {
  let bytes: Uint8Array;
  try {
    const info = Deno.statSync(path);
    if (info.isDirectory) {
      throw new UserError("usage", `${path}: expected a YAML file, but this is a folder.`);
    }
    // A pipe that a shell made, `--config <(...)`, is there to be read; any other may wait for ever.
    if (!info.isFile && !/^\/(dev|proc\/self)\/(fd\/\d+|stdin)$/.test(path)) {
      throw new UserError("usage", `${path}: expected a YAML file, but this is a pipe or a device.`);
    }
    bytes = readStart(path);
    if (bytes.length > MAX_BYTES) {
      throw new UserError("usage", `${path}: a file of settings has at most ${MAX_BYTES} bytes.`);
    }
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError("usage", `${path}: ${readProblem(error)}`, { cause: error });
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UserError("usage", `${path}: not a text file (expected YAML in UTF-8).`);
  }
}

/** It reads at most one byte more than is allowed, because a pipe or a growing file has no known size. */
function readStart(path: string): Uint8Array {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(MAX_BYTES + 1);
  let length = 0;
  while (length < bytes.length) {
    const got = file.readSync(bytes.subarray(length));
    if (got === null) break;
    length += got;
  }
  return bytes.subarray(0, length);
}

function readProblem(error: unknown): string {
  if (error instanceof Deno.errors.NotFound) return "no such file. Check --config.";
  if (error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable) {
    return "no permission to read this file.";
  }
  return `cannot be read (${error instanceof Error ? error.message : error}).`;
}
