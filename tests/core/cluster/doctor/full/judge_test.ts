import { assertEquals, assertMatch } from "@std/assert";
import {
  judgeResults,
  type PairResult,
  type RankResult,
  type Results,
} from "../../../../../core/cluster/doctor/full/judge.ts";
import { tournament } from "../../../../../core/cluster/doctor/full/pairs.ts";
import { assertSentence } from "../../../../sentences.ts";

const MIB = 2 ** 20;
const write = (seconds: number, refused: string | null = null) => ({
  refused,
  at: null,
  bytes: 64 * MIB,
  writeSeconds: seconds,
  syncSeconds: 0,
  renameSeconds: 0,
  skew: 0,
});
const rank = (n: number, more: Partial<RankResult> = {}): RankResult => ({
  rank: n,
  host: `node${n}`,
  device: "cuda:0",
  gflops: 40_000,
  same: true,
  write: write(0.5),
  ahead: 0,
  unsure: 0.001,
  ...more,
});
const pairsOf = (nodes: number, seconds: (a: number, b: number) => number): PairResult[] =>
  tournament(nodes).flat().map(([a, b]) => ({
    nodes: [`node${a}`, `node${b}`],
    bytes: 8 * MIB,
    seconds: seconds(a, b),
    right: true,
  }));
const RESULTS: Results = {
  ranks: [0, 1, 2, 3].map((n) => rank(n)),
  pairs: pairsOf(4, () => 0.001),
  left: 0,
  all: [{ bytes: 4096, seconds: 3e-5 }, { bytes: 16 * MIB, seconds: 0.002 }],
  seconds: 12,
};
const judged = (more: Partial<Results>) => judgeResults({ ...RESULTS, ...more });
const wrong = (more: Partial<Results>) => {
  const { lines, exclude } = judged(more);
  return { lines: lines.filter(({ state }) => state !== "good"), exclude };
};

Deno.test("four nodes alike are five good lines, and none to exclude", () => {
  const { lines, exclude } = judged({});
  assertEquals(lines.map(({ name, state }) => `${name} ${state}`), [
    "matmul good",
    "pairs good",
    "all-reduce good",
    "writes good",
    "clocks good",
  ]);
  assertEquals(exclude, []);
});

Deno.test("a throttled GPU is named by rank and node, with the --exclude", () => {
  const ranks = RESULTS.ranks.with(2, rank(2, { gflops: 20_000 }));
  const { lines, exclude } = wrong({ ranks });
  assertEquals([lines.length, exclude], [1, ["node2"]]);
  assertSentence("core/cluster/doctor/full/judge: rank node slow", lines[0].said);
  assertEquals(lines[0].fix, "Leave it out: --exclude=node2.");
});

Deno.test("a rank that is a little slower is none to speak of", () => {
  assertEquals(wrong({ ranks: RESULTS.ranks.with(1, rank(1, { gflops: 30_000 })) }).lines, []);
});

Deno.test("GPUs and CPUs are not compared with each other", () => {
  assertEquals(wrong({ ranks: RESULTS.ranks.with(3, rank(3, { device: "cpu", gflops: 90 })) }).lines, []);
});

Deno.test("on one node there is none to leave out", () => {
  const ranks = [0, 1, 2, 3].map((n) => rank(n, { host: "node0", gflops: n === 3 ? 1000 : 40_000 }));
  const { lines, exclude } = wrong({ ranks, pairs: [] });
  assertEquals(exclude, []);
  assertMatch(lines[0].fix!, /throttled/);
});

Deno.test("other bits from the same product are bad", () => {
  const { lines, exclude } = wrong({ ranks: RESULTS.ranks.with(1, rank(1, { same: false })) });
  assertEquals([lines[0].state, exclude], ["bad", ["node1"]]);
});

Deno.test("a node that is slow with every other is told from its partners", () => {
  const pairs = pairsOf(4, (a, b) => a === 1 || b === 1 ? 0.01 : 0.001);
  const { lines, exclude } = wrong({ pairs });
  assertEquals([lines.length, exclude], [1, ["node1"]]);
  assertSentence("core/cluster/doctor/full/judge: node slow every", lines[0].said);
});

Deno.test("a network that crawls everywhere is no node's fault", () => {
  const { lines, exclude } = wrong({ pairs: pairsOf(4, () => 1) });
  assertEquals([lines.length, exclude], [1, []]);
  assertMatch(lines[0].fix!, /NCCL_SOCKET_IFNAME/);
});

Deno.test("a sum that is wrong is bad, with the pair", () => {
  const [first, ...others] = RESULTS.pairs;
  const { lines } = wrong({ pairs: [{ ...first, right: false }, ...others] });
  assertEquals(lines[0].state, "bad");
  assertMatch(lines[0].said, /node0 and node3 is wrong/);
});

Deno.test("a node without the run's file system is named, and all without it are no node's fault", () => {
  const one = wrong({ ranks: RESULTS.ranks.with(3, rank(3, { write: write(0, "ENOENT") })) });
  assertEquals([one.lines[0].state, one.exclude], ["bad", ["node3"]]);
  const all = wrong({ ranks: [0, 1, 2, 3].map((n) => rank(n, { write: write(0, "EROFS") })) });
  assertEquals(all.exclude, []);
});

Deno.test("a node that writes slowly is named", () => {
  const { lines, exclude } = wrong({ ranks: RESULTS.ranks.with(2, rank(2, { write: write(5) })) });
  assertEquals([lines[0].name, exclude], ["writes", ["node2"]]);
});

Deno.test("a clock that is off by more than a second is told, and one that may be is not", () => {
  const at = (ahead: number, unsure: number) =>
    wrong({ ranks: RESULTS.ranks.with(1, rank(1, { ahead, unsure })) }).lines.map(({ said }) => said);
  assertEquals(at(-3, 0.01), ["the clock of node1 is 3 s behind that of node0"]);
  assertEquals([at(0.9, 0.01), at(3, 2.5)], [[], []]);
});
