// The standard library: each part of it is named in one line of deps/, so that JSR's package can stand there.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { ROOT } from "./integration/program.ts";

const { imports } = JSON.parse(Deno.readTextFileSync(join(ROOT, "deno.json"))) as {
  imports: Record<string, string>;
};
const parts = Object.keys(imports).filter((name) => name.startsWith("@std/"));
const FROM = /^(?:\/\/ @ts-types="[^"]*"\n)?(export \{[^}]*\} from )"npm:deno-std@[^"]*";$/gm;

/** A part's file as it is once its one line names JSR's package. */
function swapped(name: string): string {
  const source = Deno.readTextFileSync(join(ROOT, imports[name]));
  assertEquals([...source.matchAll(FROM)].length, 1, `${imports[name]} names its package in one line`);
  return source.replace(FROM, `$1"jsr:${name}@1";`);
}

const PROGRAM = `
import { assertEquals } from "./assert.ts";
import { delay } from "./async.ts";
import { TextLineStream } from "./streams.ts";
await delay(1);
const lines = ReadableStream.from(["a\\nb", "c\\n"]).pipeThrough(new TextLineStream());
assertEquals(await Array.fromAsync(lines), ["a", "bc"]);
console.log("the same");
`;

async function runProgram(sourceOf: (name: string) => string) {
  const folder = Deno.makeTempDirSync();
  try {
    for (const name of parts) Deno.writeTextFileSync(join(folder, `${name.slice(5)}.ts`), sourceOf(name));
    Deno.copyFileSync(join(ROOT, "deps/std.d.ts"), join(folder, "std.d.ts"));
    Deno.writeTextFileSync(join(folder, "main.ts"), PROGRAM);
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--check", "--no-config", "--no-lock", "main.ts"],
      cwd: folder,
      env: { NO_COLOR: "1" },
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { out: text(stdout), err: text(stderr) };
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("the parts of the standard library do what the program relies on", async () => {
  const { out, err } = await runProgram((name) => Deno.readTextFileSync(join(ROOT, imports[name])));
  assertEquals(out, "the same\n", err);
});

Deno.test("JSR's packages do the same in their place, where JSR answers; elsewhere only it is missing", async () => {
  assert(parts.length >= 3);
  const { out, err } = await runProgram(swapped);
  if (out !== "the same\n") assertMatch(err, /JSR package manifest for '@std\/\w+' failed to load/);
});

Deno.test("deno.lock names the packages that deps/ and deno.json name: all of them are put into the executable", () => {
  const read = (path: string) => Deno.readTextFileSync(join(ROOT, path));
  const files = [...Deno.readDirSync(join(ROOT, "deps"))].map(({ name }) => read(`deps/${name}`));
  const used = [...files, read("deno.json")].join("\n");
  const { specifiers } = JSON.parse(read("deno.lock")) as { specifiers: Record<string, string> };
  assertEquals(Object.keys(specifiers).filter((name) => !used.includes(name)), []);
});
