// Gathers facts about this machine as plain data, which pure functions judge, here or elsewhere.
import { join } from "../../../deps/path.ts";
import type { Resolved } from "../../settings/resolve.ts";
import { gpuCount } from "../../base/gpus.ts";
import { placeFlags } from "../../ranks/context.ts";
import {
  type AllocationFacts,
  gatherAllocation,
  gatherScheduler,
  judgeAllocation,
  judgeScheduler,
  type SchedulerFacts,
} from "./job.ts";
import {
  type ClockFacts,
  type CoresFacts,
  type DomainsFacts,
  gatherCores,
  gatherDomains,
  gatherLimits,
  gatherMemory,
  gatherSystem,
  judgeClock,
  judgeCores,
  judgeDomains,
  judgeLimits,
  judgeMemory,
  judgeSystem,
  type LimitsFacts,
  type MemoryFacts,
  type SystemFacts,
} from "./system.ts";
import { gatherGpu, type GpuFacts, judgeGpu } from "./gpu.ts";
import { gatherSlingshot, judgeSlingshot, type SlingshotFacts } from "./slingshot.ts";
import {
  gatherLibtorch,
  gatherMpi,
  gatherNccl,
  judgeLibtorch,
  judgeMpi,
  judgeNccl,
  type LibtorchFacts,
  type MpiFacts,
  type NcclFacts,
} from "./libraries.ts";
import type { Finding } from "./check.ts";
import { gatherNetwork, judgeNetwork, type NetworkFacts } from "./network.ts";
import { type CheckedFolder, gatherStorage, judgeStorage, type StorageFacts } from "./storage.ts";
import { pathExists } from "../../base/files.ts";
import { beginningOf, isUrl } from "../../data/arrays/paths.ts";

/** `--json` prints these; tests have those of other machines. */
export interface MachineFacts {
  readonly system: SystemFacts;
  readonly libtorch: LibtorchFacts;
  readonly gpu: GpuFacts;
  readonly nccl: NcclFacts;
  readonly mpi: MpiFacts;
  readonly scheduler: SchedulerFacts;
  readonly allocation: AllocationFacts;
  readonly cores: CoresFacts;
  readonly domains: DomainsFacts;
  readonly memory: MemoryFacts;
  readonly network: NetworkFacts;
  readonly slingshot: SlingshotFacts;
  readonly storage: StorageFacts;
  readonly limits: LimitsFacts;
  readonly clock: ClockFacts;
}

type Env = Record<string, string>;

const PROBE_BYTES = 8 * 2 ** 20, PROBE_SECONDS = 2;

export async function examine(
  { config, origin }: Pick<Resolved, "config" | "origin">,
  env: Env,
): Promise<MachineFacts> {
  const { training, environment, data, distributed } = config;
  // The finder reads HPCTRAIN_LIBTORCH by itself and names it as the source.
  const explicit = environment.libtorch === env.HPCTRAIN_LIBTORCH ? "" : environment.libtorch;
  const libtorch = gatherLibtorch(explicit);
  const usable = libtorch.broken === null ? libtorch.chosen : null;
  const gpu = gatherGpu(training.device, usable?.gpu, env);
  const allocation = gatherAllocation(env, placeFlags(distributed), gpuCount(env));
  const { world, localWorld, nodes, nodeNames } = allocation;
  const onCpus = training.device === "cpu" || gpu.devices.length === 0;
  const mentioned = !["default", "preset"].includes(origin("data.num_workers").kind);
  const [scheduler, network, storage] = await Promise.all([
    gatherScheduler(env),
    gatherNetwork(nodeNames, nodes, distributed.network, env),
    gatherStorage(foldersOf(config), PROBE_BYTES, PROBE_SECONDS, env),
  ]);
  const servers = storage.places.flatMap(({ folder, probe }) =>
    probe?.refused === null ? [{ folder, ahead: probe.skew }] : []
  );
  return {
    system: gatherSystem(),
    libtorch,
    gpu,
    nccl: await gatherNccl(usable, gpu.devices.length, env),
    mpi: await gatherMpi(world > 1 && onCpus, env),
    scheduler,
    allocation,
    cores: gatherCores(data.num_workers, mentioned, localWorld),
    domains: gatherDomains(localWorld),
    memory: gatherMemory(),
    network,
    slingshot: gatherSlingshot(gpu.devices.length > 0 ? gpu.kind : null, nodes, env),
    storage,
    limits: gatherLimits(localWorld),
    clock: { now: Date.now() / 1000, servers },
  };
}

function foldersOf({ output, data }: Resolved["config"]): CheckedFolder[] {
  const inside = (name: string) => {
    const folder = join(output.save_dir, name);
    return pathExists(folder) ? folder : output.save_dir;
  };
  const kept = ["checkpoints", "logs"].map(inside);
  const read = (what: string, flag: string, path: string) =>
    path === "" || isUrl(path) ? [] : [{ what, flag, path: beginningOf(path), written: false }];
  const written = kept[0] === kept[1]
    ? [{ what: "checkpoints and logs", path: kept[0] }]
    : [{ what: "checkpoints", path: kept[0] }, { what: "logs", path: kept[1] }];
  return [
    ...written.map((place) => ({ ...place, flag: "--save-dir", written: true })),
    ...data.stage ? [{ what: "staged data", flag: "--stage", path: data.stage, written: true }] : [],
    ...read("data", "--data-path", data.data_path),
    ...read("data to validate with", "--validation-path", data.validation_path),
    ...read("data to test with", "--test-path", data.test_path),
  ];
}

export const judgeFacts = (facts: MachineFacts): Finding[] => [
  ...judgeLibtorch(facts.libtorch),
  ...judgeSystem(facts.system),
  ...judgeGpu(facts.gpu),
  ...judgeNccl(facts.nccl),
  ...judgeSlingshot(facts.slingshot),
  ...judgeMpi(facts.mpi),
  ...judgeScheduler(facts.scheduler),
  ...judgeAllocation(facts.allocation),
  ...judgeCores(facts.cores),
  ...judgeDomains(facts.domains),
  ...judgeMemory(facts.memory),
  ...judgeNetwork(facts.network),
  ...judgeStorage(facts.storage),
  ...judgeLimits(facts.limits),
  ...judgeClock(facts.clock),
];
