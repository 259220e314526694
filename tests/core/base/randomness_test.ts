// docs/randomness.md names every random choice: the page is compared with the sources.
import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { extensionPages } from "../../../scripts/site/pages.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

function* sources(folder: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(join(ROOT, folder))) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* sources(path);
    else if (name.endsWith(".ts")) yield path;
  }
}

/** A file without its comments. */
const codeOf = (path: string) =>
  Deno.readTextFileSync(join(ROOT, path)).replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, "");

/** Every call of key() in a text, its arguments as a reader would name them. */
function keysIn(text: string): string[] {
  const found: string[] = [];
  for (const { index, 0: head } of text.matchAll(/(?<![.\w]|function )key\(/g)) {
    let depth = 1, end = index + head.length;
    for (; depth > 0; end++) depth += text[end] === "(" ? 1 : text[end] === ")" ? -1 : 0;
    const call = text.slice(index, end).replaceAll(/\s+/g, " ");
    found.push(call.replaceAll(/\b(?:this|mixing)\.|\b\w+ = /g, ""));
  }
  return found;
}

const core = [...sources("core"), ...sources("extensions")]
  .filter((path) => path !== "core/base/random.ts" && !/^extensions\/[^/]+\/tests\//.test(path));

Deno.test("docs/randomness.md has every key of the program and its place, and no other", () => {
  const importing = /import \{[^}]*\bkey\b[^}]*\} from "[./\w]*\/random\.ts"/;
  const inSources = core.filter((path) => importing.test(codeOf(path)))
    .flatMap((path) => keysIn(codeOf(path)).map((call) => `${call} in ${path}`));
  const pages = ["docs/randomness.md", ...extensionPages()].map((page) =>
    Deno.readTextFileSync(join(ROOT, page))
  );
  const rows = pages.join("\n").split("\n").filter((l) => l.startsWith("|"));
  const onPage = rows.flatMap((row) => {
    const place = /((?:core|extensions)\/\S+\.ts)/.exec(row)?.[1];
    return keysIn(row).map((call) => `${call} in ${place}`);
  });
  assert(inSources.length > 20);
  assertEquals(onPage.sort(), inSources.sort());
});

Deno.test("nothing is drawn but from keys, and the weights from the seed", () => {
  const drawn = core.flatMap((path) => {
    const code = codeOf(path);
    return [...code.matchAll(/\bmanualSeed\((.*)\);|Math\.random/g)]
      .map(({ 0: all, 1: from }) =>
        `${code.includes(`const ${from} = key(`) ? "key" : from ?? all} in ${path}`
      );
  });
  const ofKey = (line: string) => /^key(?:\(.*\))? in /.test(line);
  assertEquals(drawn.filter((line) => !ofKey(line)), ["BigInt(training.seed) in core/train/build.ts"]);
});
