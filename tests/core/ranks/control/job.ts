// A server and its ranks in one process, as the tests of the control plane use them.
import { type Client, join } from "../../../../core/ranks/control/client.ts";
import type { ControlTimeouts } from "../../../../core/ranks/control/job.ts";
import type { Hello, Settings } from "../../../../core/ranks/control/messages.ts";
import { openControlServer } from "../../../../core/ranks/control/server.ts";
import type { QueryEngine } from "../../../../core/ranks/control/hang.ts";
import { settingsHash } from "../../../../core/ranks/control/control.ts";

export const SECRET = new TextEncoder().encode("a secret of these tests, 32 bytes");

const LIMITS: ControlTimeouts = { arrive: 20_000, stall: 60_000, firstStall: 60_000, silence: 20_000 };

export interface TestJob {
  readonly port: number;
  readonly lines: string[];
  readonly reports: { name: string; report: unknown }[];
  rank(rank: number, more?: Partial<Hello>, settings?: Settings, secret?: Uint8Array): Promise<Client>;
  close(): Promise<void>;
}

function openJob(world: number, limits: Partial<ControlTimeouts> = {}, askEngine?: QueryEngine): TestJob {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const lines: string[] = [];
  const reports: TestJob["reports"] = [];
  const settings = { "training.batch_size": 64, "training.seed": 1 };
  const all = { ...LIMITS, ...limits };
  const hello = (rank: number): Hello => ({
    rank,
    world,
    localRank: rank % 4,
    host: `node${rank >> 2}`,
    pid: 1000 + rank,
    device: `GPU ${rank % 4}`,
    versions: { hpctrain: "0.1.0", libtorch: "2.15.0" },
    settings: settingsHash(settings),
  });
  const server = openControlServer({
    listener,
    secret: SECRET,
    own: hello(0),
    settings,
    limits: all,
    nodeOf: (rank) => `node${rank >> 2}`,
    say: (line) => lines.push(line),
    keep: (name, report) => (reports.push({ name, report }), `logs/run/${name}`),
    queryEngine: askEngine,
  });
  const clients: Client[] = [];
  return {
    port,
    lines,
    reports,
    async rank(rank, more = {}, own = settings, secret = SECRET) {
      const client = await join({
        hello: { ...hello(rank), settings: settingsHash(own), ...more },
        settings: own,
        find: () => ({ secret, addresses: [{ hostname: "127.0.0.1", port }], lacking: "" }),
        arrive: all.arrive,
        silence: all.silence,
      });
      clients.push(client);
      return client;
    },
    async close() {
      for (const client of clients) client.send({ is: "goodbye" });
      await server.close();
      for (const client of clients) client.close();
      await Promise.all(clients.map((client) => client.flushed()));
    },
  };
}

/** A job that is closed however the test ends. */
export async function withJob(
  world: number,
  limits: Partial<ControlTimeouts>,
  use: (job: TestJob) => Promise<void>,
  askEngine?: QueryEngine,
): Promise<void> {
  const job = openJob(world, limits, askEngine);
  try {
    await use(job);
  } finally {
    await job.close();
  }
}

/** Why a rank could not take part. */
export async function refusal(joining: Promise<unknown>): Promise<string> {
  try {
    await joining;
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("it was taken in");
}
