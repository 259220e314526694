// docs/exactness.md names every random choice: the page is compared with the sources.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
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

/** Calls without a name: they tell things apart, and nothing is drawn from them, or they go on from two draws that have one. */
const NO_CHOICES = [
  "key(Math.floor(draw(k) * 2 ** 32), Math.floor(draw(k + 1) * 2 ** 32)) in core/data/augment/sample.ts",
  "key(order.length, ...seen) in core/data/source/order.ts",
  "key(length, samples, JSON.stringify(chosen)) in core/data/open/open.ts",
  "key(0, kind, JSON.stringify(facts)) in core/data/synthetic/generate.ts",
  "key(made.train.length, made.val?.length ?? 0, hashOf(made)) in core/data/open/generated.ts",
];

Deno.test("docs/exactness.md and the pages of extensions name every random choice of the program, and no other", () => {
  const importing = /import \{[^}]*\bkey\b[^}]*\} from "[./\w]*\/random\.ts"/;
  const calls = core.filter((path) => importing.test(codeOf(path)))
    .flatMap((path) =>
      keysIn(codeOf(path)).map((call) => ({ call, path, name: /"([^"]+)"/.exec(call)?.[1] }))
    );
  const rows = ["docs/exactness.md", ...extensionPages()].flatMap((page) => {
    const [, part = ""] = Deno.readTextFileSync(join(ROOT, page)).split("\n## Random choices\n");
    return part.split("\n## ")[0].split("\n").filter((line) => line.startsWith("|"));
  });
  const onPage = rows.flatMap((row) => [...row.split("|")[2].matchAll(/`([^`]+)`/g)].map(([, name]) => name));
  const named = new Set(calls.flatMap(({ name }) => name === undefined ? [] : [name]));
  assert(named.size > 20);
  assertEquals(onPage.sort(), [...named].sort());
  const others = calls.filter(({ name }) => name === undefined).map(({ call, path }) => `${call} in ${path}`);
  assertEquals(others.sort(), [...NO_CHOICES].sort());
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
