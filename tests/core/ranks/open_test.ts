// What ranks communicate by is chosen, or refused, before anything is loaded; one rank alone needs nothing.
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { type CollectivesOptions, openCollectives } from "../../../core/ranks/collectives.ts";
import { rankContext } from "../../../core/ranks/context.ts";
import { UserError } from "../../../core/base/errors.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { offerMemory } from "../../../ffi/ranks/shared.ts";
import { listen } from "../../../ffi/ranks/tcp.ts";
import { inTemp } from "../../integration/program.ts";
import { useLibtorch } from "../../libtorch.ts";
import { assertSentence } from "../../sentences.ts";

useLibtorch();
for (const open of [offerMemory, () => listen(true)]) open(); // libraries stay open, once they are

const options = (
  env: Record<string, string>,
  more: Partial<CollectivesOptions> = {},
): CollectivesOptions => ({
  where: rankContext(env),
  device: "cpu",
  backend: "auto",
  requested: { by: `--distributed-backend ${more.backend}`, undo: "leave it out" },
  env,
  timeout: 10,
  ...more,
});

async function refusal(env: Record<string, string>, more?: Partial<CollectivesOptions>): Promise<UserError> {
  return await assertRejects(() => openCollectives(options(env, more)), UserError);
}

Deno.test("one rank alone gets its own numbers back", async () => {
  const { collectives: c } = await openCollectives(options({}));
  assertEquals([c.backend, c.rank, c.world], ["alone", 0, 1]);
  const own = tensor([1, 2]), all = tensor([0, 0], [1, 2]), part = tensor([0, 0]);
  const tickets = [
    c.allReduce(own, "sum", "sum"),
    c.broadcast(own, 0, "told"),
    c.allGather(all, own, "all"),
    c.reduceScatter(part, all, "part"),
    c.barrier("end"),
  ];
  assertEquals(tickets, [1, 2, 3, 4, 5]);
  tickets.forEach(c.wait);
  for (const t of [own, all, part]) {
    assertEquals([...toNumbers(t)], [1, 2]);
    t.free();
  }
  await c.close();
});

Deno.test("MPI by name, and nothing of MPI started these ranks: they are told how to be started, and that they need it not", async () => {
  const env = { RANK: "1", WORLD_SIZE: "4", MASTER_ADDR: "localhost" };
  const { message, exitCode } = await refusal(env, { backend: "mpi" });
  assertEquals(exitCode, 2);
  assertSentence("core/ranks/open: distributed-backend mpi nothing", message);
  assertSentence("core/ranks/open: mpirun hpctrain leave", message);
});

Deno.test("an engine for the other kind of device is refused", async () => {
  const onCpu = await refusal({ PMI_RANK: "0", PMI_SIZE: "2" }, { backend: "nccl" });
  assert(onCpu.message.includes("leave it out to have MPI, shared memory or TCP"));
  const { message } = await refusal({ PMI_RANK: "0", PMI_SIZE: "2" }, { device: "cuda:0", backend: "mpi" });
  assertSentence("core/ranks/open: distributed-backend mpi works", message);
});

/** A machine on which no MPI can be found. */
function withoutMpi(body: (env: Record<string, string>) => Promise<void>): Promise<void> {
  return inTemp(async (folder) => {
    Deno.writeTextFileSync(`${folder}/ldconfig`, "#!/bin/sh\necho nothing\n", { mode: 0o755 });
    await body({ PATH: folder, HPCTRAIN_CACHE: folder });
  });
}

Deno.test("MPI by name on a machine without it: how to get it is told", () =>
  withoutMpi(async (none) => {
    const env = { ...none, PMI_RANK: "0", PMI_SIZE: "2" };
    const { message, exitCode } = await refusal(env, { backend: "mpi" });
    assertEquals(exitCode, 7);
    assert(message.includes("`hpctrain libtorch install mpich`"), message);
  }));

/** All ranks but this one are in the test's hands: what each says is what this one says, or another thing. */
const meeting = (others: Record<string, (own: unknown) => unknown>) => ({
  key: new Uint8Array(32),
  ends: { own: "127.0.0.1", server: "127.0.0.1" },
  gather: <T>(name: string, own: T): T[] => [own, name in others ? others[name](own) as T : own],
});

Deno.test("ranks take shared memory where one of them found no MPI, and say whose it was that lacked it", () =>
  withoutMpi(async (none) => {
    const said: unknown[] = [];
    const stop = (own: unknown) => {
      said.push(own);
      throw new UserError("communication", "Enough is known.");
    };
    const env = { ...none, PMI_RANK: "0", PMI_SIZE: "2" };
    await refusal(env, { meeting: meeting({ "how ranks reach each other": stop }) });
    assertMatch(JSON.stringify(said), /"why":"no MPI was found"/);
    const elsewhere = (own: unknown) => ({
      ...own as object,
      host: { memory: "another one", loopback: "another one" },
    });
    const { message, exitCode } = await refusal(env, {
      backend: "shm",
      meeting: meeting({ "how ranks reach each other": elsewhere }),
    });
    assertEquals(exitCode, 2);
    assertSentence("core/ranks/open: distributed-backend shm ranks", message);
  }));

Deno.test("where one rank has no room for shared memory, all take TCP; where shared memory was asked for, it is told why", () =>
  withoutMpi(async (none) => {
    const env = { ...none, RANK: "0", WORLD_SIZE: "2" };
    const full = { "shared memory": () => ({ why: "there is no room" }) };
    const offers: unknown[] = [];
    const stop = (own: unknown) => {
      offers.push(own);
      throw new UserError("communication", "Enough is known.");
    };
    await refusal(env, { meeting: meeting({ ...full, TCP: stop }) });
    assertMatch(JSON.stringify(offers), /"port":\d+,"addresses":\["127\.0\.0\.1"\]/);
    const { message } = await refusal(env, { backend: "shm", meeting: meeting(full) });
    assertSentence("core/ranks/open: distributed-backend shm ranks node", message);
  }));

Deno.test("ranks on GPUs without a usable NCCL are told where to get one", async () => {
  const nccl = { share: () => new Uint8Array(128), network: "auto", logs: "logs" } as const;
  const env = { RANK: "1", WORLD_SIZE: "2", HPCTRAIN_NCCL: "/nowhere" };
  const { message, exitCode } = await refusal(env, { device: "cuda:0", nccl });
  assertEquals(exitCode, 7);
  assertSentence("core/ranks/open: nccl library given", message);
});
