// Where rank 0 listens, and where the others look for it. May import auth, errors, where.
import { UserError } from "../../errors.ts";
import type { Env } from "../launchers.ts";
import type { Where } from "../where.ts";
import { numberFrom, type Secret } from "./auth.ts";

export interface Address {
  readonly hostname: string;
  readonly port: number;
}

/** Below the ports that systems give to outgoing connections, so that a free one stays free. */
const FIRST_PORT = 20_000, PORTS = 12_000, TRIES = 8;

/** Everyone who has the secret finds the same. */
const derivedPorts = (secret: Secret): number[] =>
  Array.from({ length: TRIES }, (_, i) => FIRST_PORT + numberFrom(secret, `port ${i}`, PORTS));

/** The port that somebody asked for. torchrun's own store listens at the one that it gives to its ranks. */
export const givenPort = ({ master, launcher }: Where, env: Env): number | null =>
  launcher === "torchrun" && env.TORCHELASTIC_RUN_ID ? null : master.port;

const onOneHost = ({ nodes }: Where) => nodes === 1;

export function listen(where: Where, env: Env, secret: Secret): Deno.TcpListener {
  const given = givenPort(where, env);
  // Ranks of one host need no port that other hosts can reach. "::" takes both families where there are both.
  const hostnames = onOneHost(where) ? ["127.0.0.1"] : ["::", "0.0.0.0"];
  for (const port of given === null ? [...derivedPorts(secret), 0] : [given]) {
    for (const hostname of hostnames) {
      try {
        return Deno.listen({ hostname, port });
      } catch (error) {
        if (error instanceof Deno.errors.AddrInUse) break;
        if (error instanceof Deno.errors.PermissionDenied && given !== null) throw notAllowed(given);
        if (hostname === hostnames.at(-1)) throw error;
      }
    }
  }
  throw taken(given!);
}

const taken = (port: number) =>
  new UserError(
    "communication",
    `Rank 0 was told to listen at port ${port} (MASTER_PORT, --master-port) on ${Deno.hostname()}, which another ` +
      "program has taken. Leave the port out, and rank 0 takes a free one and tells the others; or name another " +
      `(ss -ltnp 'sport = :${port}' says who has it).`,
  );

const notAllowed = (port: number) =>
  new UserError(
    "communication",
    `Rank 0 was told to listen at port ${port} (MASTER_PORT, --master-port), which needs root. Name one above 1023, ` +
      "or leave it out to have one chosen.",
  );

/** Where other hosts may reach this one, the likeliest first. */
export function ownAddresses(where: Where, port: number): Address[] {
  const at = (hostname: string) => ({ hostname, port });
  if (onOneHost(where)) return [at("127.0.0.1")];
  const named = [where.master.host, Deno.hostname()].filter((name) => name !== null);
  return [...new Set([...named, ...cardsHere()])].map(at);
}

/** This host's own addresses, as numbers. */
export const cardsHere = (): string[] =>
  Deno.networkInterfaces()
    .filter(({ address }) => !/^(127\.|::1$|fe80:|169\.254\.)/.test(address))
    .toSorted((a, b) => likelihood(a) - likelihood(b))
    .map(({ address }) => address);

/** Bridges of containers and virtual machines have the same addresses on every host. */
const likelihood = ({ name, family }: Deno.NetworkInterfaceInfo) =>
  (/^(docker|br-|virbr|veth|cni|podman)/.test(name) ? 2 : 0) + (family === "IPv6" ? 1 : 0);

/** Without having heard from rank 0: what the launcher said. */
export function guesses(where: Where, env: Env, secret: Secret): Address[] {
  const { master, nodeNames } = where;
  const hosts = onOneHost(where) ? ["127.0.0.1"] : [master.host, nodeNames[0]];
  const known = [...new Set(hosts.filter((host) => host !== null && host !== undefined))];
  const given = givenPort(where, env);
  const ports = given === null ? derivedPorts(secret) : [given];
  return known.flatMap((hostname) => ports.map((port) => ({ hostname, port })));
}

/** What tells this job from the others of the same folder, the same on each of its ranks. */
export function jobKey(where: Where, env: Env): string {
  const { SLURM_JOB_ID, SLURM_STEP_ID, PBS_JOBID, PALS_APID, PMIX_NAMESPACE, TORCHELASTIC_RUN_ID } = env;
  const scheduler = SLURM_JOB_ID
    ? `slurm-${SLURM_JOB_ID}.${SLURM_STEP_ID ?? ""}`
    : PBS_JOBID
    ? `pbs-${PBS_JOBID}`
    : "";
  const launcher = where.launcher === "openmpi"
    ? PMIX_NAMESPACE ?? ""
    : where.launcher === "pals"
    ? PALS_APID ?? ""
    : where.launcher === "torchrun" || where.launcher === "flags"
    ? [TORCHELASTIC_RUN_ID, where.master.host, where.master.port].filter((part) => part).join("-")
    : "";
  // On one host a launcher's ranks have the launcher as their parent.
  const parent = onOneHost(where) && scheduler === "" && launcher === ""
    ? `${Deno.hostname()}-${Deno.ppid}`
    : "";
  return [scheduler, launcher, parent].filter((part) => part !== "").join("-").replace(/[^\w.-]+/g, "_") ||
    "job";
}

export const shown = ({ hostname, port }: Address): string =>
  `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
