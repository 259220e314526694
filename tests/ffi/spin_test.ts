import { assert, assertEquals } from "@std/assert";
import { type CoresSeen, spinFor } from "../../ffi/preload.ts";

const seen = (more: Partial<CoresSeen> = {}) =>
  spinFor({ env: {}, allowed: "0-7", online: "0-7", others: () => 0, ...more });

/** As if samples of a machine gave these, one after the other. */
const samples = (...values: number[]) => () => values.shift()!;

Deno.test("on quiet cores threads spin for long, beside somebody who computes briefly", () => {
  assertEquals(seen(), { cores: "quiet", turns: 30_000 });
  assertEquals(seen({ others: () => 1 }), { cores: "busy", turns: 1_000 });
});

Deno.test("a thread that wakes for a moment makes no neighbour, one that is seen in most samples does", () => {
  assertEquals(seen({ others: samples(0, 3, 0, 1, 0) }).cores, "quiet");
  assertEquals(seen({ others: samples(1, 0, 1, 1, 0) }).cores, "busy");
});

Deno.test("where the system does not tell, somebody may be there", () => {
  assertEquals(seen({ others: () => NaN }).cores, "busy");
});

Deno.test("a job's cores and a cpuset are one's own, and nobody has to be looked for", () => {
  const others = () => {
    throw new Error("looked");
  };
  for (const name of ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"]) {
    assertEquals(seen({ env: { [name]: "7" }, others }), { cores: "job", turns: 30_000 });
  }
  assertEquals(seen({ allowed: "0-3", others }), { cores: "cpuset", turns: 30_000 });
});

Deno.test("what the user has set is left as it is", () => {
  for (const name of ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"]) {
    assertEquals(seen({ env: { [name]: "passive", SLURM_JOB_ID: "7" } }), { cores: "by hand", turns: null });
  }
});

const program = `
  const { settleSpin } = await import(${
  JSON.stringify(new URL("../../ffi/preload.ts", import.meta.url).href)
});
  const began = performance.now(), { cores } = settleSpin(), ms = performance.now() - began;
  console.log(JSON.stringify({ cores, ms, set: Deno.env.get("GOMP_SPINCOUNT") ?? null, again: settleSpin().cores }));
`;

/** What a process of its own decides, without what a job or the user says. */
async function decided(env: Record<string, string> = {}) {
  const bare = Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) =>
      !/^(SLURM_JOB_ID|PBS_JOBID|LSB_JOBID|GOMP_SPINCOUNT|OMP_WAIT_POLICY)$/.test(name)
    ),
  );
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", program],
    env: { ...bare, ...env },
    clearEnv: true,
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test("beside a neighbour on every core the cores are busy, unless they are a cpuset", async () => {
  const neighbours = Array.from(
    { length: navigator.hardwareConcurrency },
    () => new Deno.Command("sh", { args: ["-c", "while :; do :; done"] }).spawn(),
  );
  try {
    const all = await Promise.all([1, 2, 3].map(() => decided()));
    for (const { cores, set, again } of all) {
      assert(cores === "busy" || cores === "cpuset", cores);
      assertEquals([set, again], [cores === "busy" ? "1000" : "30000", cores]);
    }
  } finally {
    for (const each of neighbours) each.kill("SIGKILL");
    await Promise.all(neighbours.map((each) => each.status));
  }
});

Deno.test("it is decided once, told to libgomp by its variable, and takes under 20 ms where nobody holds it up", async () => {
  const times: number[] = [];
  while (times.length < 5 || (Math.min(...times) >= 20 && times.length < 30)) { // neighbours hold it up now and then
    const { ms, set } = await decided();
    assert(set === "30000" || set === "1000", set);
    times.push(ms);
  }
  assert(Math.min(...times) < 20, `${times} ms`);
  const { cores, set, ms } = await decided({ GOMP_SPINCOUNT: "77" });
  assertEquals([cores, set], ["by hand", "77"]);
  assert(ms < 20);
});
