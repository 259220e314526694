// A process of the benchmark `meeting`: rank 0 with the real server, or some of the other ranks. A simulated rank is a real
// client of the control plane that trains nothing; its process follows the words on its input and answers each with a line.
import { writeIndex, writeShard } from "../core/checkpoint/sharded_writer.ts";
import { TensorData } from "../core/checkpoint/value.ts";
import { type Client, join } from "../core/ranks/control/client.ts";
import { settingsHash } from "../core/ranks/control/control.ts";
import { beatMs } from "../core/ranks/control/job.ts";
import type { Hello, ToRank } from "../core/ranks/control/messages.ts";
import { findServers, openRankZero } from "../core/ranks/control/rendezvous.ts";
import type { RankContext } from "../core/ranks/context.ts";
import { linesOf, peakMemory, processorTime } from "./contestant.ts";

const [first, end, world, aNode] = Deno.args.slice(0, 4).map(Number), folder = Deno.args[4];
const TENSORS = 400;
const SETTINGS = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`section.setting_${i}`, i]));
const LIMITS = { arrive: 120_000, stall: 600_000, firstStall: 600_000, silence: 30_000 };

const nameOf = (node: number) => `node${`${node}`.padStart(4, "0")}`;

const whereIs = (rank: number): RankContext => ({
  rank,
  world,
  localRank: rank % aNode,
  localWorld: aNode,
  node: Math.floor(rank / aNode),
  nodes: Math.ceil(world / aNode),
  nodeNames: Array.from({ length: Math.ceil(world / aNode) }, (_, node) => nameOf(node)),
  master: { host: "127.0.0.1", port: null },
  launcher: "slurm",
  description: "",
});

const helloOf = (rank: number): Hello => ({
  rank,
  world,
  localRank: rank % aNode,
  host: nameOf(Math.floor(rank / aNode)),
  pid: 10_000 + rank,
  device: `GPU-${`${rank}`.padStart(8, "0")}-1111-2222-3333-444444444444`,
  versions: { hpctrain: "0.1.0", libtorch: "2.15.0+cu132" },
  settings: settingsHash(SETTINGS),
});

const optionsOf = (rank: number) => ({
  where: whereIs(rank),
  folder,
  runFolder: folder,
  hello: helloOf(rank),
  settings: SETTINGS,
  limits: LIMITS,
});

/** A job of the simulation, as each of its processes knows it. */
const env = { SLURM_JOB_ID: `${world}` };
const openFiles = () => [...Deno.readDirSync("/proc/self/fd")].length;
const before = { memory: peakMemory(), processor: processorTime() };

const zero = first === 0 ? openRankZero(optionsOf(0), env) : null;
const clients: Client[] = [];
let meetings = 0;

/** So many messages of each kind have come, also before this process was told to wait for them. */
const came: Partial<Record<ToRank["is"], number>> = {};
let look = () => {};

async function each(is: ToRank["is"], send: (client: Client, rank: number) => void): Promise<void> {
  const all = Promise.withResolvers<void>();
  look = () => (came[is] ?? 0) >= clients.length && all.resolve();
  clients.forEach((client, i) => send(client, first + i));
  look();
  await all.promise;
  came[is]! -= clients.length;
}

function receive(client: Client, message: ToRank): void {
  if (message.is === "hold") client.send({ is: "held", id: message.id, count: 7 });
  came[message.is] = (came[message.is] ?? 0) + 1;
  look();
}

let beating = 0;

const words: Record<string, () => Promise<object | void>> = {
  async meet() {
    const ranks = Array.from({ length: end - first }, (_, i) => first + i);
    const { arrive, silence } = LIMITS;
    clients.push(
      ...await Promise.all(ranks.map((rank) =>
        join({
          ...optionsOf(rank),
          find: zero && rank === 0 ? zero.find : findServers(optionsOf(rank), env),
          ...{ arrive, silence },
        })
      )),
    );
    for (const client of clients) client.listen((message) => receive(client, message));
  },
  /** As ranks without MPI tell each other where they are. */
  gather: () =>
    each("passed", (client, rank) => {
      const identity = `${Math.floor(rank / aNode)}`.padStart(16, "0");
      const value = { host: { memory: identity, loopback: identity }, why: null };
      client.send({ is: "barrier", n: meetings + 1, name: "how ranks reach each other", value });
    }).finally(() => meetings++),
  barrier: () =>
    each("passed", (client) => client.send({ is: "barrier", n: meetings + 1, name: "weights" }))
      .finally(() => meetings++),
  save: () =>
    each("agreed", (client, rank) => {
      if (rank === world - 1) client.send({ is: "wish", what: "save", reason: "the file SAVE" });
    }),
  beat() {
    let step = 0;
    const beat = () =>
      clients.forEach((client) =>
        client.send({
          is: "beat",
          beat: { step, phase: "backward", still: 12, queued: 1000 + step, begun: 1000, ended: 1000 },
        })
      );
    beat();
    beating = setInterval(() => (step += 3, beat()), beatMs(world));
    return Promise.resolve();
  },
  shards() {
    for (let rank = first; rank < end; rank++) writeShard(SHARDS, rank, CONTENT);
    return Promise.resolve();
  },
  index: () => Promise.resolve({ bytes: writeIndex(SHARDS, CONTENT) }),
  told: () =>
    Promise.resolve({
      memory: peakMemory() - before.memory,
      processor: processorTime() - before.processor,
      files: openFiles(),
    }),
  abort: () =>
    each("error", (client, rank) => {
      if (rank !== world - 1) return;
      const sentence = "images/3.jpg: is not an image.";
      client.send({ is: "failed", step: 7, cause: { kind: "error" }, sentence, code: 3 });
    }),
  async leave() {
    clearInterval(beating);
    for (const client of clients) client.send({ is: "goodbye" });
    await Promise.all(clients.map((client) => client.flushed()));
    await zero?.close();
    for (const client of clients) client.close();
  },
};

const SHARDS = { folder: `${folder}/sharded`, world, generation: "" };

/** Weights of 400 parameters with few bytes: here names, files and the index are what counts. */
const CONTENT = {
  tensors: new Map(
    Array.from({ length: TENSORS }, (_, i): [string, TensorData] => {
      const bytes = new Uint8Array(64);
      const storage = { byteLength: bytes.length, read: () => bytes };
      return [`blocks.${i >> 3}.layer_${i & 7}.weight`, new TensorData("f32", [16], storage)];
    }),
  ),
  metadata: {},
};

console.log(JSON.stringify({ ready: true }));
for await (const word of linesOf(Deno.stdin.readable)) {
  const began = performance.now();
  const more = await words[word]();
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000, ...more }));
}
Deno.exit(0);
