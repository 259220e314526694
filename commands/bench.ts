// `hpctrain bench allreduce`: how fast the ranks that were started add up tensors; `bench scaling` is next door. Imports core.
import { ownWords, parseOptions } from "../core/config/options.ts";
import { resolve } from "../core/config/resolve.ts";
import { didYouMean } from "../core/config/suggest.ts";
import { measureAllReduce, type Measured, SIZES } from "../core/dist/bench_allreduce.ts";
import { BACKENDS } from "../core/dist/collectives.ts";
import { placeFlags, whereAmI } from "../core/dist/where.ts";
import { EXIT, UserError } from "../core/errors.ts";
import { formatBytes, formatPlural, formatRate } from "../core/format.ts";
import { openDevice } from "../core/train/device.ts";
import { failed, joinRanks } from "../core/train/parallel/join.ts";
import { benchScaling } from "./bench_scaling.ts";
import { TAKES } from "./takes.ts";
import { BENCH_OPTIONS } from "./options.ts";

const USAGE = "hpctrain bench allreduce [--sizes 4KiB,1MiB] [FLAGS] | scaling RUN RUN...";

export async function bench(argv: string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { own, rest } = ownWords(argv, BENCH_OPTIONS);
  if (rest.includes("scaling") && own.length === 0) return benchScaling(rest);
  const sizes = sizesIn(parseOptions(own, BENCH_OPTIONS, USAGE).options.sizes);
  const { config, positionals: [what] } = resolve({
    argv: rest,
    env,
    positionals: 1,
    usage: USAGE,
    takes: TAKES.bench,
  });
  if (what !== "allreduce") {
    const found = what === undefined
      ? ""
      : `, but "${what}" was given.${didYouMean(what, ["allreduce", "scaling"])}`;
    throw new UserError("usage", `bench measures allreduce or scaling${found || "."} Usage: ${USAGE}`);
  }
  const where = whereAmI(env, placeFlags(config.distributed));
  if (where.world === 1) {
    throw new UserError(
      "usage",
      "bench allreduce measures what ranks do together, and this is one rank alone. Start several: " +
        "hpctrain launch -n 2 -- bench allreduce, or srun hpctrain bench allreduce in an allocation.",
    );
  }
  const opened = openDevice(config, where.localRank);
  const { device } = opened;
  const { team, control, notes } = await joinRanks({ where, config, env, ...opened });
  const { quiet, json } = config.output;
  const say = (line: string) => team.rank > 0 || quiet || json ? undefined : console.log(line);
  try {
    notes.forEach(say);
    const { backend } = team.collectives;
    const { world: ranks, nodes } = where;
    say(
      `All-reduce of f32 on ${formatPlural(ranks, "rank")}, ${formatPlural(nodes, "node")}, by ${
        BACKENDS[backend]
      }:`,
    );
    say(HEAD);
    const measured = measureAllReduce(team, device, sizes, (row) => say(line(row)));
    if (team.rank === 0 && json) {
      console.log(JSON.stringify({ bench: "allreduce", backend, device, ranks, nodes, notes, measured }));
    }
    await team.collectives.close();
    await control.close();
    return EXIT.done;
  } catch (error) {
    team.collectives.abort(error instanceof Error ? error.message : String(error));
    throw await failed(control, error);
  }
}

const HEAD = row("size", "time", "algorithm", "bus");

const line = ({ bytes, seconds, algorithm, bus }: Measured): string =>
  row(formatBytes(bytes), `${formatRate(1e6 * seconds)} us`, gigabytes(algorithm), gigabytes(bus));

const gigabytes = (perSecond: number): string => `${formatRate(perSecond / 1e9)} GB/s`;

function row(...cells: string[]): string {
  return cells.map((cell) => cell.padStart(14)).join("");
}

const UNITS: Readonly<Record<string, number>> = { "": 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 };

/** "4KiB,1MB,64m": powers of 1024, as in what is printed. */
function sizesIn(text: string | undefined): readonly number[] {
  if (text === undefined) return SIZES;
  return text.split(",").map((word) => {
    const [, number, unit] = /^\s*(\d+)\s*([kmg]?)(?:i?b)?\s*$/i.exec(word) ?? [];
    const size = Number(number) * UNITS[(unit ?? "").toLowerCase()];
    if (size >= 4 && size <= 2 ** 36) return size;
    throw new UserError(
      "usage",
      `--sizes has "${word.trim()}" in it: sizes such as 4KiB,64KiB,16MiB are expected, from 4 bytes on.`,
    );
  });
}
