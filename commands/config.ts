// `hpctrain config`: each value of the effective configuration, and where it came from. Imports core/config.
import { stringify } from "../deps/yaml.ts";
import { settingsPage } from "../core/config/docs.ts";
import { parseOptions } from "../core/config/options.ts";
import { resolve, type Resolved } from "../core/config/resolve.ts";
import { jsonSchema } from "../core/config/schema.ts";
import { ALL, type Declared, read, write } from "../core/config/tree.ts";
import { CONFIG_OPTIONS } from "./options.ts";

const USAGE = "hpctrain config [FLAGS] [--changed] [--json | --yaml | --schema | --docs]";

// deno-lint-ignore require-await
export async function config(argv: string[]): Promise<number> {
  const own = argv.filter((word) =>
    Object.hasOwn(CONFIG_OPTIONS, word.replace(/^--/, "")) && word.startsWith("--")
  );
  const { options } = parseOptions(own, CONFIG_OPTIONS, USAGE);
  if (options.schema) return print(JSON.stringify(jsonSchema(), null, 2));
  if (options.docs) return print(settingsPage().trimEnd());
  const resolved = resolve({
    argv: argv.filter((word) => !own.includes(word)),
    env: Deno.env.toObject(),
    usage: USAGE,
  });
  const shown = options.changed ? ALL.filter((declared) => differs(resolved, declared)) : ALL;
  if (options.yaml) return print(stringify(valuesOf(resolved, shown)).trimEnd());
  if (options.json) return print(JSON.stringify(asJson(resolved, shown), null, 2));
  return print(shown.length > 0 ? table(resolved, shown) : "Every setting has its default.");
}

const differs = ({ config }: Resolved, { path, setting }: Declared): boolean =>
  JSON.stringify(read(config, path)) !== JSON.stringify(setting.default);

function valuesOf({ config }: Resolved, shown: readonly Declared[]): object {
  const values = {};
  for (const { path } of shown) write(values, path, read(config, path));
  return values;
}

function asJson(resolved: Resolved, shown: readonly Declared[]) {
  const { origin, preset, files } = resolved;
  const origins = Object.fromEntries(shown.map(({ path }) => [path, origin(path)]));
  return { preset, files, config: valuesOf(resolved, shown), origin: origins };
}

/** Grouped by section, in three aligned columns. */
export function table({ config, origin }: Resolved, listed: readonly Declared[] = ALL): string {
  const rows = listed.map(({ path, setting }) => {
    const value = read(config, path);
    const plain = Array.isArray(value) ? value.join(",") : String(value);
    const stands = setting.empty && JSON.stringify(value) === JSON.stringify(setting.default);
    const shown = stands ? `${plain} (${setting.empty})`.trim() : plain;
    return { section: path.split(".")[0], key: path.slice(path.indexOf(".") + 1), shown, from: origin(path) };
  });
  const keys = Math.max(...rows.map(({ key }) => key.length));
  const values = Math.min(44, Math.max(...rows.map(({ shown }) => shown.length)));
  const lines = rows.map(({ section, key, shown, from }, i) => {
    const title = section === rows[i - 1]?.section ? "" : `${i > 0 ? "\n" : ""}${section}\n`;
    return `${title}  ${key.padEnd(keys)}  ${shown.padEnd(values)}  ${from}`;
  });
  return lines.join("\n");
}

function print(text: string): number {
  console.log(text);
  return 0;
}
