// Trains again and again in one process, on the CPU and on the CUDA stand-in, and writes what each run ended with and
// what the stand-in counted. Started by runs.ts: program.ts FOLDER_OF_THE_SOURCES RESULTS < runs.json
import { join } from "paths";
import type { Counted, Ended, Run } from "./runs.ts";

const [sources, results] = Deno.args;
const runs: Run[] = JSON.parse(await new Response(Deno.stdin.readable).text());
const { main } = await import(join(sources, "main.ts"));

const { symbols: standin } = Deno.dlopen(Deno.env.get("CUDA_STANDIN_RUNTIME")!, {
  standin_set: { parameters: ["buffer", "buffer"], result: "void" },
  standin_report: { parameters: ["buffer", "usize"], result: "usize" },
  standin_reset: { parameters: [], result: "void" },
});
const text = (words: string) => new TextEncoder().encode(words + "\0");
const set = (what: string, value: string) => standin.standin_set(text(what), text(value));
const room = new Uint8Array(4 << 20);

function counted(): Record<string, Counted> {
  const length = Number(standin.standin_report(room, BigInt(room.length)));
  const lines = new TextDecoder().decode(room.subarray(0, length)).trimEnd().split("\n");
  return Object.fromEntries(lines.map((line) => {
    const [name, count, bytes] = line.split("\t");
    return [name, { count: Number(count), bytes: Number(bytes) }];
  }));
}

async function trained({ args, late, fail = "" }: Run): Promise<Ended> {
  set("late", late ? "1" : "0");
  standin.standin_reset();
  set("fail", fail);
  const began = performance.now();
  let code = 0, error: string | null = null;
  try {
    code = await main(args);
  } catch (thrown) {
    code = (thrown as { exitCode?: number }).exitCode ?? 70;
    error = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown);
  }
  const seconds = (performance.now() - began) / 1000;
  set("fail", "");
  return { code, error, seconds, counts: counted() };
}

const ends: Ended[] = [];
for (const run of runs) {
  ends.push(await trained(run));
  Deno.writeTextFileSync(results, JSON.stringify(ends));
}
Deno.exit(0); // a thread of the last run may still wait
