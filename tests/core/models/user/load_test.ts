// Users' files: types erased in place, files of theirs beside them, and where in them a mistake is.
import { assert, assertEquals, assertNotEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { asMistake, loadFile, sourcePosition } from "../../../../core/models/user/file.ts";
import { inTemp } from "../../../integration/program.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

type Files = Readonly<Record<string, string>>;

async function withFiles(
  files: Files,
  body: (path: (name: string) => string) => Promise<void>,
): Promise<void> {
  await inTemp(async (folder) => {
    for (const [name, text] of Object.entries(files)) Deno.writeTextFileSync(join(folder, name), text);
    await body((name) => join(folder, name));
  });
}

const thrownBy = (body: () => unknown): unknown => {
  try {
    body();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
};

Deno.test("a TypeScript file is loaded with the files that it imports, whose types are erased too", () =>
  withFiles({
    "a.ts":
      'import { twice } from "./b.ts";\nimport type { X } from "./gone.d.ts";\nexport default (x: X): number => twice<number>(x as number);\n',
    "b.ts": "export const twice = <T>(x: T): T => ((x as unknown as number) * 2) as unknown as T;\n",
  }, async (path) => {
    const { exports, hash } = await loadFile(path("a.ts"));
    assertEquals((exports.default as (x: number) => number)(21), 42);
    assertEquals(hash.length, 64);
  }));

Deno.test("the hash is of the file and of all that it imports", () =>
  withFiles({ "a.ts": 'import "./b.ts";\nexport {};\n', "b.ts": "export const x = 1;\n" }, async (path) => {
    const before = (await loadFile(path("a.ts"))).hash;
    assertEquals((await loadFile(path("a.ts"))).hash, before);
    Deno.writeTextFileSync(path("b.ts"), "export const x = 2;\n");
    assertNotEquals((await loadFile(path("a.ts"))).hash, before);
  }));

Deno.test("an error in a file, or in one that it imports, is told with its own line and column", () =>
  withFiles({
    "a.ts":
      'import { fail } from "./b.ts";\n\ntype Long = {\n  a: number;\n};\nexport const here = (): Long => { throw new Error("oh"); };\nexport const there = () => fail();\n',
    "b.ts": "interface Y { z: string }\nexport function fail(): Y {\n  return (undefined as any).z.a;\n}\n",
  }, async (path) => {
    const { exports } = await loadFile(path("a.ts"));
    const here = thrownBy(exports.here as () => void);
    assertEquals(sourcePosition(here), { path: path("a.ts"), line: 6, column: 41 });
    const there = asMistake(thrownBy(exports.there as () => void)) as UserError;
    assert(there instanceof UserError);
    assertSentence("core/models/user/load: typeerror cannot read", there.message, { ts: path("b.ts") });
  }));

Deno.test("an error that no user's file is on the way of is left as it is", () => {
  const error = new Error("ours");
  assertEquals(asMistake(error), error);
});

/** A file's text -> what is said of it. */
const REFUSED: readonly (readonly [string, string, string])[] = [
  ["an enum", "\nenum Kind { a }\nexport default Kind;\n", "a.ts:2:1: "],
  ["a parameter property", "class A {\n  constructor(private x: number) {}\n}\n", "a.ts:2:23: "],
  ["a broken line", "export const x = ;\n", "a.ts:1:"],
  [
    "a package",
    'import x from "npm:lodash";\nexport default x;\n',
    sentenceNamed("core/models/user/load: imports npm lodash"),
  ],
  [
    "a file that is not there",
    'import { x } from "./none.ts";\nexport default x;\n',
    "a.ts imports, is not there.",
  ],
  ["a circle", 'import "./a.ts";\n', sentenceNamed("core/models/user/load: files import other")],
];

for (const [what, text, said] of REFUSED) {
  Deno.test(`a file is refused in a sentence for ${what}`, () =>
    withFiles({ "a.ts": text }, async (path) => {
      const { message } = await assertRejects(() => loadFile(path("a.ts")), UserError);
      assertStringIncludes(message, said);
      assert(!message.includes("data:"), message);
    }));
}
