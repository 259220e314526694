// The library as others get it: every exported name says what it is, and the package can be published and imported.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join, relative } from "paths";
import { SENTENCES } from "../scripts/op_sentences.ts";
import { userOps } from "../scripts/user_ops.ts";
import { blocksOf } from "./integration/docs_blocks.ts";
import { inTemp } from "./integration/program.ts";

const ROOT = fromFileUrl(new URL("../", import.meta.url));

async function deno(args: string[], cwd = ROOT): Promise<{ success: boolean; said: string; stdout: string }> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
    cwd,
    env: { NO_COLOR: "1" },
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { success, said: text(stdout) + text(stderr), stdout: text(stdout) };
}

Deno.test("every name that mod.ts exports is documented, and refers to nothing that it does not export", async () => {
  const { success, said } = await deno(["doc", "--lint", "mod.ts"]);
  assert(success, said);
});

Deno.test("the operations that users see are those of ffi/ops.ts, each with a sentence", () => {
  const source = Deno.readTextFileSync(join(ROOT, "ffi/ops.ts"));
  const made = userOps(source);
  assertEquals(
    Deno.readTextFileSync(join(ROOT, "core/models/user/ops.ts")),
    made,
    "make them anew: deno run --allow-all --no-lock scripts/user_ops.ts",
  );
  const names = [...source.matchAll(/export const (\w+) = aten\(/g)].map(([, name]) => name);
  assertEquals(Object.keys(SENTENCES).sort(), names.sort()); // none for an op that is gone
});

Deno.test("deno doc shows an operation's arguments by name, and what it does", async () => {
  const { stdout } = await deno(["doc", "--filter", "ops.crossEntropyLoss", "mod.ts"]);
  assertStringIncludes(stdout, "labelSmoothing?: number");
  assertStringIncludes(stdout, "Cross-entropy of logits (n, classes, ...)");
});

Deno.test("the package can be published: what it needs is in it, and nothing else", async () => {
  const { success, said } = await deno([
    "publish",
    ...["--dry-run", "--allow-dirty", "--allow-slow-types", "--no-check"],
  ]);
  assert(success, said);
  const files = [...said.matchAll(/file:\/\/\S+/g)].map(([url]) => fromFileUrl(url).slice(ROOT.length));
  for (const needed of ["mod.ts", "deno.json", "LICENSE", "README.md", "presets/debug.yaml"]) {
    assert(files.includes(needed), `${needed} is not among ${files}`);
  }
  const own =
    /^(mod\.ts|deno\.json|LICENSE|README\.md|CHANGELOG\.md|(commands|core|deps|extensions|ffi|presets)\/.*)$/;
  assertEquals(files.filter((file) => !own.test(file)), []);
});

const PROGRAM = `
import { createOptimizer, getDebugConfig, manualSeed, nn, openDevice, ops, packParameters, backward, scope } from "@hpctrain/hpctrain";
const config = getDebugConfig();
const { device } = openDevice(config);
manualSeed(1n);
const layer = new nn.Linear(3, 1);
const arena = packParameters(layer.namedParameters(), device);
const optimizer = createOptimizer(config.training.optimizer, arena);
const losses: number[] = [];
for (let step = 0; step < 200; step++) {
  losses.push(scope(() => {
    const x = ops.randn([32, 3]);
    const loss = ops.mseLoss(layer.forward(x), ops.sumDim(x, [1], true));
    ops.zero_(arena.gradient);
    backward(loss);
    optimizer.step(0.05);
    return loss.item();
  }));
}
console.log(JSON.stringify([losses[0], losses.at(-1)]));
`;

Deno.test("a project of one's own, and the programs in docs/library.md, are checked against the package's types, and run", () =>
  inTemp(async (folder) => {
    // As `deno add` would leave it, but for the place that the package comes from.
    const links = {
      links: [relative(folder, ROOT)],
      imports: { "@hpctrain/hpctrain": "jsr:@hpctrain/hpctrain@^0.1.0" },
    };
    Deno.writeTextFileSync(join(folder, "deno.json"), JSON.stringify(links));
    const blocks = blocksOf(Deno.readTextFileSync(join(ROOT, "docs/library.md"))).filter((b) =>
      b.language === "ts" && b.mark === "" // those with a mark are files for the program
    );
    assertEquals(blocks.length, 3);
    const programs = { train: PROGRAM } as Record<string, string>;
    for (const { line, text } of blocks) programs[`block${line}`] = text;
    const files = Object.keys(programs).map((name) => `${name}.ts`);
    for (const [name, text] of Object.entries(programs)) {
      Deno.writeTextFileSync(join(folder, `${name}.ts`), text);
    }
    const types = await deno(["check", "--no-lock", ...files], folder); // once: it takes longer than to run them
    assert(types.success, types.said);
    for (const file of files) {
      const { success, said, stdout } = await deno(
        ["run", "--allow-all", "--no-lock", "--no-check", file],
        folder,
      );
      assert(success && stdout !== "", `${file}: ${said}`);
      if (file !== "train.ts") continue;
      const [first, last] = JSON.parse(stdout);
      assert(first > 1 && last < 0.01 * first, stdout);
    }
  }));
