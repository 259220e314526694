// The program on a machine of several NUMA domains: this one, with another /sys/devices/system before its own.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { cpuCount } from "../../core/base/topology.ts";
import { inTemp, run, succeed, TINY } from "./program.ts";
import { assertSentence } from "../sentences.ts";

/** Writes the files that tell of domains and cores; cores have one thread. */
function write(root: string, domains: readonly (readonly number[])[]): void {
  for (const [id, cpus] of domains.entries()) {
    Deno.mkdirSync(join(root, `node/node${id}`), { recursive: true });
    Deno.writeTextFileSync(join(root, `node/node${id}/cpulist`), `${cpus.join(",")}\n`);
    Deno.writeTextFileSync(join(root, `node/node${id}/meminfo`), `Node ${id} MemTotal: 33554432 kB\n`);
  }
}

const MOUNT = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /sys/devices/system && exec "$@"'];

function possible(): boolean {
  if (Deno.uid() !== 0 || cpuCount() < 2) return false;
  try {
    const [program, ...args] = [...MOUNT, "/sys/devices/system", "true"];
    return new Deno.Command(program, { args, stderr: "null" }).outputSync().success;
  } catch {
    return false; // no such program
  }
}

/** Two cores of this machine are all that the program sees. */
const on = async (
  domains: readonly (readonly number[])[],
  body: (through: string[], cwd: string) => Promise<void>,
) =>
  await inTemp(async (cwd) => {
    write(join(cwd, "system"), domains);
    await body([...MOUNT, join(cwd, "system"), "taskset", "-c", "0,1"], cwd);
  });

Deno.test({
  name:
    "a rank with the cores of one domain says so and takes its memory first; what a kernel refuses is a note (needs root)",
  ignore: !possible(),
  async fn() {
    const words = [
      ...TINY.filter((word) => !word.startsWith("--threads")),
      "--model=mlp",
      "--data-type=synthetic",
    ];
    await on([[0, 1], [2, 3]], async (through, cwd) => {
      const { stdout } = await succeed(words, { cwd, through });
      assertSentence("integration/numa: cores numa domain", stdout);
    });
    await on([[2, 3], [0, 1]], async (through, cwd) => { // the kernel has no domain 1
      const { stdout } = await succeed(words, { cwd, through });
      assertSentence("integration/numa: cores numa domain whose", stdout);
    });
  },
});

Deno.test({
  name: "launch without -n starts a rank on each domain, and doctor says so beforehand (needs root)",
  ignore: !possible(),
  async fn() {
    await on([[0], [1]], async (through, cwd) => {
      const seen = await run(["doctor"], { cwd, through });
      assertMatch(
        seen.stdout,
        /NUMA +2 domains of 2, 1 cores and 32\.0 GiB each; without -n, `hpctrain launch/,
      );
      const data = ["--data-type", "synthetic", "--samples", "8", "--out", "made"];
      const { stderr } = await succeed(["launch", "--", "generate-data", ...data], { cwd, through });
      assertMatch(stderr, /^hpctrain: Starting 2 ranks; 2 cores are shared by 2 ranks, 1 thread each\.$/m);
    });
    await on([[0, 1]], async (through, cwd) => {
      const { code, stderr } = await run(["launch", "--", "generate-data", "--samples", "8"], {
        cwd,
        through,
      });
      assertEquals(code, 2);
      assertSentence("integration/numa: hpctrain launch needs", stderr);
    });
  },
});
