// What a user does: the executable in a folder of its own, and docs/slurm.md's first commands, in a real SLURM.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { blocksOf } from "../docs_blocks.ts";
import { eventsOf, EXE, ROOT } from "../program.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}

/** The first block behind the mark in a page. */
function example(page: string, mark: string): string {
  const text = Deno.readTextFileSync(join(ROOT, page));
  const at = text.indexOf(`<!-- example: ${mark} -->`);
  assert(at >= 0, `${page} has no example "${mark}"`);
  return blocksOf(text.slice(at))[0].text;
}

Deno.test({
  name: `the first job of docs/slurm.md trains, from a folder with nothing but the executable ${NEEDS}`,
  ignore: MISSING || EXE === null,
  fn: async () => {
    const cwd = join(bed.folder, "home");
    Deno.mkdirSync(cwd);
    Deno.copyFileSync(EXE!, join(cwd, "hpctrain"));
    const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
    const told = await bed.done(["bash", "-euc", example("docs/slurm.md", "first job")], { cwd, env });
    const id = Number(/^Submitted job (\d+) /m.exec(told)?.[1]);
    const { state } = await bed.end(id, 120);
    const out = Deno.readTextFileSync(join(cwd, `logs/slurm/first_${id}.out`));
    assertEquals(state, "COMPLETED", out);
    assertMatch(out, /^Starting distributed training on 4 CPU ranks$/m);
    assertMatch(out, /^Finished after .*: 3 epochs/m);
    assertEquals(eventsOf(cwd, "first").at(-1)!.code, 0);
  },
});

Deno.test({
  name: `the two machines of docs/manual-cluster.md train together, started by hand ${NEEDS}`,
  ignore: MISSING || EXE === null,
  fn: async () => {
    const cwd = join(bed.folder, "shared");
    Deno.mkdirSync(cwd);
    Deno.symlinkSync(EXE!, join(cwd, "hpctrain"));
    const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
    const type = (node: string, mark: string) =>
      bed.on(node, ["bash", "-euc", example("docs/manual-cluster.md", mark)], { cwd, env });
    assertEquals((await type("node1", "secret")).code, 0);
    // The second machine is the first to come.
    const second = type("node2", "node 1");
    const [first, other] = await Promise.all([type("node1", "node 0"), second]);
    assertEquals([first.code, other.code], [0, 0], first.stderr + other.stderr);
    assertMatch(first.stdout, /^Starting distributed training on 4 CPU ranks\nMaster node: node1$/m);
    assertMatch(first.stdout, /^Finished after .*: 2 epochs/m);
    assertEquals(other.stdout, "");
  },
});
