// Gathers facts about this machine as plain data, which pure functions judge, here or elsewhere.
import { join } from "../../../deps/path.ts";
import type { Resolved } from "../../settings/resolve.ts";
import { gpuCount } from "../../base/gpus.ts";
import { placeFlags } from "../../ranks/context.ts";
import { jobChecks } from "./job.ts";
import { systemChecks } from "./system.ts";
import { gpuCheck } from "./gpu.ts";
import { gpuLibraryCheck } from "./gpu_libraries.ts";
import { slingshotCheck } from "./slingshot.ts";
import { libraryChecks } from "./libraries.ts";
import type { Finding } from "./check.ts";
import { networkCheck } from "./network.ts";
import { type CheckedFolder, storageCheck } from "./storage.ts";
import { pathExists } from "../../base/files.ts";
import { beginningOf, isUrl } from "../../data/arrays/paths.ts";

/** They are judged in this order. */
const CHECKS = {
  libtorch: libraryChecks.libtorch,
  system: systemChecks.system,
  gpu: gpuCheck,
  gpuLibraries: gpuLibraryCheck,
  nccl: libraryChecks.nccl,
  slingshot: slingshotCheck,
  mpi: libraryChecks.mpi,
  ...jobChecks,
  cores: systemChecks.cores,
  domains: systemChecks.domains,
  memory: systemChecks.memory,
  network: networkCheck,
  storage: storageCheck,
  limits: systemChecks.limits,
  clock: systemChecks.clock,
};

/** `--json` prints these; tests have those of other machines. */
export type MachineFacts = {
  readonly [Name in keyof typeof CHECKS]: Parameters<(typeof CHECKS)[Name]["judge"]>[0];
};

type Env = Record<string, string>;

const PROBE_BYTES = 8 * 2 ** 20, PROBE_SECONDS = 2;

export async function examine(
  { config, origin }: Pick<Resolved, "config" | "origin">,
  env: Env,
): Promise<MachineFacts> {
  const { training, environment, data, distributed } = config;
  // The finder reads HPCTRAIN_LIBTORCH by itself and names it as the source.
  const explicit = environment.libtorch === env.HPCTRAIN_LIBTORCH ? "" : environment.libtorch;
  const libtorch = CHECKS.libtorch.gather(explicit);
  const usable = libtorch.broken === null ? libtorch.chosen : null;
  const gpu = CHECKS.gpu.gather(training.device, usable?.gpu, env);
  const allocation = CHECKS.allocation.gather(env, placeFlags(distributed), gpuCount(env));
  const { world, localWorld, nodes, nodeNames } = allocation;
  const onCpus = training.device === "cpu" || gpu.devices.length === 0;
  const mentioned = !["default", "preset"].includes(origin("data.num_workers").kind);
  const [scheduler, network, storage] = await Promise.all([
    CHECKS.scheduler.gather(env),
    CHECKS.network.gather(nodeNames, nodes, distributed.network, env),
    CHECKS.storage.gather(foldersOf(config), PROBE_BYTES, PROBE_SECONDS, env),
  ]);
  const servers = storage.places.flatMap(({ folder, probe }) =>
    probe?.refused === null ? [{ folder, ahead: probe.skew }] : []
  );
  return {
    system: CHECKS.system.gather(),
    libtorch,
    gpu,
    gpuLibraries: CHECKS.gpuLibraries.gather(usable, gpu.devices.map(({ capability }) => capability), env),
    nccl: await CHECKS.nccl.gather(usable, gpu.devices.length, env),
    mpi: await CHECKS.mpi.gather(world > 1 && onCpus, env),
    scheduler,
    allocation,
    cores: CHECKS.cores.gather(data.num_workers, mentioned, localWorld),
    domains: CHECKS.domains.gather(localWorld),
    memory: CHECKS.memory.gather(),
    network,
    slingshot: CHECKS.slingshot.gather(gpu.devices.length > 0 ? gpu.kind : null, nodes, env),
    storage,
    limits: CHECKS.limits.gather(localWorld),
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

export const judgeFacts = (facts: MachineFacts): Finding[] =>
  Object.entries(CHECKS).flatMap(([name, { judge }]) => judge(facts[name as keyof MachineFacts] as never));
