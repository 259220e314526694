// What ranks communicate by is chosen, or refused, before anything is loaded; one rank alone needs nothing.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { openCollectives, type OpenOptions } from "../../../core/dist/open.ts";
import { whereAmI } from "../../../core/dist/where.ts";
import { UserError } from "../../../core/errors.ts";
import { tensor, toNumbers } from "../../../ffi/make.ts";
import { inTemp } from "../../integration/program.ts";
import { useLibtorch } from "../../libtorch.ts";

useLibtorch();

const options = (env: Record<string, string>, more: Partial<OpenOptions> = {}): OpenOptions => ({
  where: whereAmI(env),
  device: "cpu",
  backend: "auto",
  env,
  timeout: 10,
  ...more,
});

async function refusal(env: Record<string, string>, more?: Partial<OpenOptions>): Promise<UserError> {
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

Deno.test("ranks on CPUs that nothing of MPI started are told how to be started", async () => {
  const { message, exitCode } = await refusal({ RANK: "1", WORLD_SIZE: "4", MASTER_ADDR: "localhost" });
  assertEquals(exitCode, 2);
  assert(/^4 ranks on CPUs communicate by MPI, and nothing of MPI started them\./.test(message), message);
  assert(message.includes("hpctrain launch -n 4 -- ..."), message);
});

Deno.test("an engine for the other kind of device is refused", async () => {
  const onCpu = await refusal({ PMI_RANK: "0", PMI_SIZE: "2" }, { backend: "nccl" });
  assert(onCpu.message.includes("leave it out to have MPI"));
  const { message } = await refusal({ PMI_RANK: "0", PMI_SIZE: "2" }, { device: "cuda:0", backend: "mpi" });
  assert(
    message.includes("--distributed-backend mpi works on host memory, and this rank computes on cuda:0"),
  );
});

Deno.test("a machine without MPI is told how to get it", () =>
  inTemp(async (folder) => {
    Deno.writeTextFileSync(`${folder}/ldconfig`, "#!/bin/sh\necho nothing\n", { mode: 0o755 });
    const { message, exitCode } = await refusal({
      PMI_RANK: "0",
      PMI_SIZE: "2",
      PATH: folder,
      HPCTRAIN_CACHE: folder,
    });
    assertEquals(exitCode, 7);
    assert(message.includes("`hpctrain libtorch install mpich`"), message);
  }));

Deno.test("ranks on GPUs without a usable NCCL are told where to get one", async () => {
  const nccl = { share: () => new Uint8Array(128), network: "auto", logs: "logs" } as const;
  const env = { RANK: "1", WORLD_SIZE: "2", HPCTRAIN_NCCL: "/nowhere" };
  const { message, exitCode } = await refusal(env, { device: "cuda:0", nccl });
  assertEquals(exitCode, 7);
  assert(message.includes("The NCCL library given by HPCTRAIN_NCCL can't be used (/nowhere)"), message);
});
