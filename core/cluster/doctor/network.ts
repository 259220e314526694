// Checks the network as this machine shows it; `--full` measures it.
import { entriesIn } from "../../base/files.ts";
import { formatPlural } from "../../base/format.ts";
import { bad, type Finding, good, onPath, programOutput, textIn, warn } from "./check.ts";

export interface NetworkFacts {
  readonly hostname: string;
  /** It is empty where no one knows the own name, and null where getent is missing. */
  readonly resolved: readonly string[] | null;
  /** Loopback and link-local addresses do not count. */
  readonly interfaces: readonly { readonly name: string; readonly address: string }[];
  readonly adapters: readonly Adapter[];
  readonly unknown: readonly string[];
  readonly nodes: number;
  readonly asked: "auto" | "infiniband" | "ethernet";
  readonly misnamed: readonly { readonly variable: string; readonly value: string }[];
}

interface Adapter {
  /** "mlx5_0 port 1". */
  readonly name: string;
  /** "ACTIVE", "DOWN". */
  readonly state: string;
  /** "200 Gb/sec (4X HDR)". */
  readonly rate: string;
}

const MOST_NAMES = 64;

export async function gatherNetwork(
  nodeNames: readonly string[],
  nodes: number,
  asked: NetworkFacts["asked"],
  env: Readonly<Record<string, string>>,
): Promise<NetworkFacts> {
  const hostname = Deno.hostname();
  const all = Deno.networkInterfaces();
  const interfaces = all.filter(({ address }) => !/^(127\.|::1$|fe80:|169\.254\.)/.test(address))
    .map(({ name, address }) => ({ name, address }));
  const others = nodeNames.filter((name) => name !== hostname).slice(0, MOST_NAMES);
  const getent = onPath("getent", env);
  const [resolved, ...found] = await Promise.all(
    [hostname, ...others].map((name) => addressesOf(name, getent)),
  );
  return {
    hostname,
    resolved,
    interfaces,
    adapters: adaptersIn("/sys/class/infiniband"),
    unknown: others.filter((_, i) => found[i]?.length === 0),
    nodes,
    asked,
    misnamed: misnamedIn(env, [...new Set(all.map(({ name }) => name))]),
  };
}

const NAMING = ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include", "FI_TCP_IFACE"];

/** "^docker,lo" leaves out, "=eth0" is exact, "eth" is a beginning; address ranges are not checked. */
function misnamedIn(
  env: Readonly<Record<string, string>>,
  addresses: readonly string[],
): NetworkFacts["misnamed"] {
  return NAMING.flatMap((variable) => {
    const value = env[variable];
    if (!value || value.startsWith("^")) return [];
    const wanted = value.replace(/^=/, "").split(",").filter((name) => !/[/.]/.test(name));
    const missing = wanted.every((name) => !addresses.some((own) => own.startsWith(name)));
    return wanted.length > 0 && missing ? [{ variable, value }] : [];
  });
}

/** getent resolves as programs in C do: /etc/hosts, DNS, whatever the site uses. */
async function addressesOf(name: string, getent: string | null): Promise<string[] | null> {
  if (getent === null) return null;
  const found = await programOutput(getent, ["ahosts", name]);
  return [...new Set((found ?? "").split("\n").map((line) => line.split(/\s/)[0]).filter(Boolean))];
}

function adaptersIn(folder: string): Adapter[] {
  return entriesIn(folder).flatMap((card) =>
    entriesIn(`${folder}/${card}/ports`).map((port) => {
      const at = `${folder}/${card}/ports/${port}`;
      const state = textIn(`${at}/state`).trim().replace(/^\d+:\s*/, "");
      return { name: `${card} port ${port}`, state, rate: textIn(`${at}/rate`).trim() };
    })
  );
}

const NAME = "network";

export function judgeNetwork(facts: NetworkFacts): Finding[] {
  const { hostname, resolved, interfaces, adapters, unknown, nodes, asked, misnamed } = facts;
  const lines: Finding[] = [];
  if (interfaces.length === 0 && nodes > 1) {
    lines.push(bad(
      NAME,
      `${hostname} has no address but the loopback, and the job has ${nodes} nodes`,
      "Start a container with the host's network, or take another node.",
    ));
  }
  for (const { variable, value } of misnamed) {
    lines.push(warn(
      NAME,
      `${variable} is "${value}", and ${hostname} has no such interface (it has ${
        namesOf(interfaces) || "none"
      })`,
      `Unset ${variable}, or name one that every node has.`,
    ));
  }
  const down = adapters.filter(({ state }) => state !== "ACTIVE");
  if (down.length > 0 && down.length === adapters.length) {
    lines.push(warn(
      NAME,
      `no InfiniBand port of ${hostname} is active: ${
        down.map(({ name, state }) => `${name} is ${state}`).join(", ")
      }`,
      "Ranks will talk over slower sockets: take another node (--exclude), and tell the site.",
    ));
  }
  if (asked === "infiniband" && adapters.length === 0) {
    lines.push(warn(
      NAME,
      "--network infiniband, and this machine shows no adapter (/sys/class/infiniband)",
      "Leave --network out, or bind /dev/infiniband into the container.",
    ));
  }
  if (unknown.length > 0) {
    lines.push(warn(
      NAME,
      `${formatPlural(unknown.length, "node")} of this job can't be found by name from ${hostname}: ${
        unknown.slice(0, 4).join(", ")
      }${unknown.length > 4 ? ", ..." : ""}`,
      "Ranks will try their addresses instead; if they don't meet, ask the site for working names, or give --master-addr.",
    ));
  }
  if (resolved?.length === 0) {
    lines.push(warn(
      NAME,
      `this machine does not know its own name, ${hostname}, which some MPI launchers want`,
      `Have it added to /etc/hosts (127.0.1.1 ${hostname}).`,
    ));
  }
  if (lines.length > 0) return lines;
  const active = adapters.filter(({ state }) => state === "ACTIVE").map(({ name, rate }) =>
    `${name} (${rate})`
  );
  const cards = interfaces.map(({ name, address }) => `${name} ${address}`);
  return [good(NAME, [...cards.length > 0 ? cards : ["the loopback alone"], ...active].join(", "))];
}

const namesOf = (interfaces: NetworkFacts["interfaces"]) =>
  [...new Set(interfaces.map(({ name }) => name))].join(", ");

export const networkCheck = { gather: gatherNetwork, judge: judgeNetwork };
