// `scripts/bench generate`: tokens a second of `hpctrain generate` beside PyTorch eager, both with keys and values kept.
import { dirname, join } from "paths";
import { type Contestant, openHost, startContestant, turns } from "./contestant.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";

interface Sizes {
  readonly title: string;
  readonly layers: number;
  readonly heads: number;
  readonly embed: number;
  readonly vocabulary: number;
  readonly context: number;
  /** Tokens of a round. */
  readonly tokens: number;
}

const MODELS: readonly Sizes[] = [
  { title: "4 layers x 128", layers: 4, heads: 4, embed: 128, vocabulary: 256, context: 512, tokens: 400 },
  { title: "6 layers x 384", layers: 6, heads: 6, embed: 384, vocabulary: 256, context: 512, tokens: 300 },
  {
    title: "12 layers x 768 (GPT-2)",
    layers: 12,
    heads: 12,
    embed: 768,
    vocabulary: 50257,
    context: 1024,
    tokens: 40,
  },
];
const PROMPT = Array.from({ length: 32 }, (_, i) => i * 7 % 256);
const ROUNDS = 9;

const peer = new URL("peers/generate.py", import.meta.url).pathname;
const worker = new URL("generate_worker.ts", import.meta.url).pathname;

const SIDES = ["hpctrain", "eager"] as const;
type Side = typeof SIDES[number];

async function weightsFile({ python, data }: Programs, { layers, heads, embed, vocabulary, context }: Sizes) {
  const path = join(data, `generate-${layers}-${embed}-${vocabulary}.pt`);
  await Deno.mkdir(dirname(path), { recursive: true });
  const sizes = [layers, heads, embed, vocabulary, context].map(String);
  const { success, stderr } = await new Deno.Command(python, { args: [peer, "make", path, ...sizes] })
    .output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return path;
}

async function measure(p: Programs, sizes: Sizes, threads: number, host: ReturnType<typeof openHost>) {
  const path = await weightsFile(p, sizes);
  const shared = [path, String(sizes.heads), String(threads), JSON.stringify(PROMPT)];
  const running = new Map<Side, Contestant>([
    [
      "hpctrain",
      await startContestant(Deno.execPath(), ["run", "--allow-all", "--no-check", worker, ...shared]),
    ],
    ["eager", await startContestant(p.python, [peer, "run", ...shared])],
  ]);
  const first: number[] = [];
  for (const contestant of running.values()) first.push((await contestant.round(sizes.tokens)).loss);
  if (first[0] !== first[1]) {
    throw new Error(`${sizes.title}: both sides wrote other tokens, so nothing is compared.`);
  }
  const rates: Record<Side, number[]> = { hpctrain: [], eager: [] };
  for (const [[side, contestant]] of turns(running, ROUNDS)) {
    const { seconds } = await host.turn(() => contestant.round(sizes.tokens));
    rates[side].push(Math.round(10 * sizes.tokens / seconds) / 10);
  }
  for (const contestant of running.values()) await contestant.end();
  await Deno.remove(path);
  return { title: sizes.title, threads, rates };
}

export async function generateBenchmark(programs: Programs): Promise<void> {
  const on = machine(), host = openHost();
  const date = new Date().toISOString().slice(0, 10);
  const rows = [];
  for (const sizes of MODELS) {
    for (const threads of new Set([1, on.cores])) {
      const row = await measure(programs, sizes, threads, host);
      const [ours, theirs] = SIDES.map((side) => median(row.rates[side]));
      console.log(
        `  ${row.title}, ${threads}: hpctrain ${ours}, eager ${theirs}, ${(ours / theirs).toFixed(2)}x`,
      );
      rows.push(row);
    }
  }
  const versions = versionsOf(programs);
  writeResults("generate", { benchmark: "generate", date, machine: on, versions, rows });
  const text = `# Tokens a second of generate

\`./scripts/bench generate\` on ${date}: ${on.cpu}, ${on.cores} cores, load ${on.load} before; libtorch ${versions.libtorch},
Python ${versions.python} with PyTorch ${versions.torch}. gpt with random weights in fp32 writes on after a prompt of
${PROMPT.length} tokens, one text, always the likeliest token; both sides keep keys and values and write the same tokens,
which is checked. Medians of ${ROUNDS} rounds in which the programs take turns. ${host.said()}

${
    table(
      ["Model", "Threads", "hpctrain", "PyTorch eager", "Speed against eager"],
      rows.map(({ title, threads, rates }) => {
        const [ours, theirs] = SIDES.map((side) => median(rates[side]));
        return [title, String(threads), `${ours}`, `${theirs}`, `${(ours / theirs).toFixed(2)}x`];
      }),
    )
  }`;
  writePage("generate", text);
}
