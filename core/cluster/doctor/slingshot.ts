// Checks HPE's Slingshot, whose interfaces are hsn0, hsn1, ...: NCCL and RCCL want a plugin for libfabric there, and variables.
// From HPE's settings for them (github.com/HewlettPackard/shs-ccl-docs, ccl_env.sh) and from reports of LUMI's users.
import { entriesIn } from "../../base/files.ts";
import type { GpuKind } from "../../../ffi/gpu/backends.ts";
import { type Finding, good, warn } from "./check.ts";

export interface SlingshotFacts {
  /** "hsn0", "hsn1"; none on another network. */
  readonly interfaces: readonly string[];
  /** Ranks on these GPUs communicate over it; null on CPUs. */
  readonly gpus: GpuKind | null;
  readonly nodes: number;
  /** The library by which NCCL or RCCL reaches libfabric. */
  readonly plugin: string | null;
  /** Those of the variables that are judged, and no others: `doctor --json` is pasted into reports. */
  readonly env: Readonly<Partial<Record<Judged, string>>>;
}

const JUDGED = ["NCCL_SOCKET_IFNAME", "NCCL_NET_GDR_LEVEL", "FI_MR_CACHE_MONITOR"] as const;
type Judged = typeof JUDGED[number];

type Env = Readonly<Record<string, string | undefined>>;

const PLUGINS = /^lib(nccl|rccl)-net(-[a-z]+)?\.so$/;

export function gatherSlingshot(
  gpus: GpuKind | null,
  nodes: number,
  env: Env,
  all: readonly { readonly name: string }[] = Deno.networkInterfaces(),
): SlingshotFacts {
  const interfaces = [...new Set(all.map(({ name }) => name).filter((name) => /^hsn\d+$/.test(name)))].sort();
  return {
    interfaces,
    gpus,
    nodes,
    plugin: interfaces.length === 0 ? null : pluginIn(env),
    env: Object.fromEntries(JUDGED.flatMap((name) => env[name] === undefined ? [] : [[name, env[name]]])),
  };
}

/** NCCL_NET_PLUGIN names one; else the loader's folders are looked through. */
function pluginIn(env: Env): string | null {
  const named = env.NCCL_NET_PLUGIN;
  if (named && named !== "none") return named;
  for (const folder of (env.LD_LIBRARY_PATH ?? "").split(":").filter((folder) => folder.startsWith("/"))) {
    const name = entriesIn(folder).find((name) => PLUGINS.test(name));
    if (name !== undefined) return `${folder}/${name}`;
  }
  return null;
}

const NAME = "Slingshot";

export function judgeSlingshot({ interfaces, gpus, nodes, plugin, env }: SlingshotFacts): Finding[] {
  if (interfaces.length === 0 || gpus === null) return [];
  const amd = gpus === "hip", library = amd ? "RCCL" : "NCCL";
  const lines: Finding[] = [];
  if (plugin === null) {
    const say = nodes > 1 ? warn : hint;
    lines.push(say(
      NAME,
      `${interfaces.join(", ")}, and no plugin for libfabric (${
        amd ? "librccl-net.so, librccl-net-ofi.so" : "libnccl-net.so, libnccl-net-ofi.so"
      }) in LD_LIBRARY_PATH: between nodes ${library} would go through sockets, at a fraction of the speed`,
      `Load the site's module for it (${
        amd ? "aws-ofi-rccl" : "aws-ofi-nccl"
      }), or bind it into the container.`,
    ));
  }
  const { NCCL_SOCKET_IFNAME: ifname, NCCL_NET_GDR_LEVEL: gdr, FI_MR_CACHE_MONITOR: monitor } = env;
  if (ifname === undefined || !/(^=?|,)hsn/.test(ifname)) {
    const say = nodes > 1 ? warn : hint;
    lines.push(say(
      NAME,
      `NCCL_SOCKET_IFNAME is ${
        ifname === undefined ? "not set" : `"${ifname}"`
      }: ranks of several nodes may try to meet ` +
        "over a network that does not reach all of them",
      `export NCCL_SOCKET_IFNAME=${interfaces.join()}.`,
    ));
  }
  if (amd && gdr !== undefined && /^(PHB|SYS|[3-9])$/i.test(gdr)) {
    lines.push(warn(
      NAME,
      `NCCL_NET_GDR_LEVEL is "${gdr}", with which jobs of several nodes have hung with ROCm 7 (LUMI)`,
      "Unset NCCL_NET_GDR_LEVEL: RCCL chooses by itself.",
    ));
  }
  if (plugin !== null && monitor !== "userfaultfd" && nodes > 1) {
    lines.push(warn(
      NAME,
      `FI_MR_CACHE_MONITOR is ${
        monitor === undefined ? "not set" : `"${monitor}"`
      }: with another monitor than ` +
        "userfaultfd, libfabric has waited for ever while memory was given back",
      "export FI_MR_CACHE_MONITOR=userfaultfd FI_CXI_DISABLE_HOST_REGISTER=1 FI_CXI_DEFAULT_CQ_SIZE=131072.",
    ));
  }
  return lines.length > 0 ? lines : [good(NAME, `${interfaces.join(", ")}, with ${plugin}`)];
}

/** It matters with several nodes alone. */
const hint = (name: string, said: string, fix: string): Finding =>
  good(name, `${said} (with several nodes). ${fix}`);

export const slingshotCheck = { gather: gatherSlingshot, judge: judgeSlingshot };
