import { assert, assertEquals, assertMatch, assertNotEquals, assertThrows } from "@std/assert";
import { join } from "paths";
import {
  givenPort,
  jobKey,
  likelyAddresses,
  listenForRanks,
  ownAddresses,
  publish,
  published,
  rendezvousFile,
} from "../../../../core/ranks/control/rendezvous.ts";
import type { Env } from "../../../../core/ranks/launchers.ts";
import { rankContext } from "../../../../core/ranks/context.ts";
import { hydra, mpirun, srun } from "../environments.ts";
import { assertSentence } from "../../../sentences.ts";

const secret = new TextEncoder().encode("a secret of these tests");
const at = (env: Env, hostname = "node1") => rankContext(env, {}, { hostname });

Deno.test("without a port, ranks look at a few that follow from the secret, on rank 0's node", () => {
  const found = likelyAddresses(at(srun(1)), srun(1), secret);
  assertEquals([...new Set(found.map(({ hostname }) => hostname))], ["node1"]);
  assert(found.length > 4 && found.every(({ port }) => port >= 20_000 && port < 32_768));
  assertEquals(likelyAddresses(at(srun(6), "node2"), srun(6), secret), found);
  assertNotEquals(likelyAddresses(at(srun(1)), srun(1), new TextEncoder().encode("another")), found);
});

Deno.test("a given address is the only one that is tried, but torchrun's own port is not taken", () => {
  const env = { ...srun(1), MASTER_ADDR: "login1", MASTER_PORT: "29500" };
  assertEquals(likelyAddresses(at(env), env, secret)[0], { hostname: "login1", port: 29500 });
  const torchrun = { RANK: "1", WORLD_SIZE: "2", MASTER_PORT: "29500" };
  assertEquals(givenPort(at(torchrun), torchrun), 29500);
  assertEquals(givenPort(at(torchrun), { ...torchrun, TORCHELASTIC_RUN_ID: "x" }), null);
});

Deno.test("jobs that share a folder have names of their own, the same on all their ranks", () => {
  const keys = [srun(0), hydra(0), { ...mpirun(0), PMIX_NAMESPACE: "prterun-node1-7@1" }].map((env) =>
    jobKey(at(env), env)
  );
  assertEquals(new Set(keys).size, keys.length, keys.join());
  assertEquals(jobKey(at(srun(6), "node2"), srun(6)), keys[0]);
  assertMatch(keys[0], /^slurm-/);
  for (const key of keys) assertMatch(key, /^[\w.-]+$/);
});

Deno.test("two launches at once in one folder are two jobs", () => {
  const rank = (folder: string, rank: number) => {
    const env = {
      RANK: String(rank),
      WORLD_SIZE: "2",
      LOCAL_WORLD_SIZE: "2",
      HPCTRAIN_LAUNCH: `/tmp/${folder}/${rank}`,
    };
    return jobKey(at(env), env);
  };
  assertEquals(rank("hpctrain-launch-a", 0), rank("hpctrain-launch-a", 1));
  assertNotEquals(rank("hpctrain-launch-a", 0), rank("hpctrain-launch-b", 0));
});

Deno.test("ranks of one host meet where no other host can come in", () => {
  const env = { RANK: "0", WORLD_SIZE: "2", LOCAL_RANK: "0", LOCAL_WORLD_SIZE: "2" };
  using listener = listenForRanks(at(env), env, secret);
  assertEquals(listener.addr.hostname, "127.0.0.1");
  assertEquals(ownAddresses(at(env), 1), [{ hostname: "127.0.0.1", port: 1 }]);
  // The ports that follow from the secret may be taken: there is always another.
  using second = listenForRanks(at(env), env, secret);
  assertNotEquals(second.addr.port, listener.addr.port);
});

Deno.test("several hosts get every address of rank 0's, bridges of containers last", () => {
  const [first] = ownAddresses(at(srun(0)), 7);
  assertEquals(first, { hostname: "node1", port: 7 });
  assert(!ownAddresses(at(srun(0)), 7).some(({ hostname }) => hostname.startsWith("127.")));
});

Deno.test("the rendezvous file is for its owner alone, and is not believed when it is not", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = rendezvousFile(join(folder, "logs"), "slurm-1");
    assertEquals(published(path), null);
    const told = { addresses: [{ hostname: "node1", port: 7 }], host: "node1", pid: 1, secret: "s" };
    publish(path, told);
    assertEquals(published(path), told);
    assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
    Deno.chmodSync(path, 0o640);
    const error = assertThrows(() => published(path)) as Error;
    assertSentence("core/ranks/control/address: other users may", error.message);
    Deno.chmodSync(path, 0o600);
    Deno.writeTextFileSync(path, '{"addresses": [');
    assertEquals(published(path), null);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("rank 0 says how many open files it needs where its hard limit is lower", async () => {
  const module = new URL("../../../../core/ranks/control/rendezvous.ts", import.meta.url).href;
  const script = `import { checkOpenFiles } from "${module}"; checkOpenFiles(100); checkOpenFiles(4096);`;
  const command = `ulimit -n 400; exec ${Deno.execPath()} eval --no-check '${script}'`;
  const { stderr } = await new Deno.Command("sh", { args: ["-c", command] }).output();
  assertMatch(
    new TextDecoder().decode(stderr),
    /UserError: Rank 0 keeps a connection with each of 4096 ranks, and may have 400 open files on \S+: 4352 are needed/,
  );
});
