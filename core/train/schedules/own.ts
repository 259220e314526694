// Schedules of the user's own: a function in TypeScript (torch's LambdaLR and MultiplicativeLR), and a table of rates.
import { readCsv } from "./rates_file.ts";
import { UserError } from "../../base/errors.ts";
import { describeValue, userFile } from "../../models/user/file.ts";
import { ofFunction } from "./falls.ts";
import { argumentsOf, file, type Kind, type Room, word } from "./law.ts";

const CODE = { file: file("a TypeScript file, such as my.ts", /\.(ts|mts|js|mjs)$/i) };

/** Its number for tick `i`. */
function factorOf(path: string, room: Room): (i: number) => number {
  const { byEpoch, ...run } = room.run;
  return (i) => {
    const factor = userFile(path).call!(i, run);
    if (typeof factor === "number" && Number.isFinite(factor) && factor >= 0) return factor;
    throw new UserError(
      "usage",
      `${path}: at ${byEpoch ? "epoch" : "step"} ${i} it returns ${
        typeof factor === "number" ? factor : describeValue(factor)
      }, and the factor of a learning rate is a finite number from 0 on.`,
    );
  };
}

const lambda: Kind = {
  arguments: CODE,
  open(call, room) {
    const { file: path } = argumentsOf(CODE, call, room), factor = factorOf(path, room), { base } = room;
    return ofFunction(base, (i) => base * factor(i));
  },
};

const multiplicative: Kind = {
  arguments: CODE,
  open(call, room) {
    const { file: path } = argumentsOf(CODE, call, room), factor = factorOf(path, room), { base } = room;
    return {
      ...ofFunction(base, (_i) => NaN),
      ...{ torch: "MultiplicativeLR", recursive: true },
      rate: (i, last) => i === 0 ? base : last * factor(i),
    };
  },
};

const TABLE = {
  file: file("a file, such as rates.csv", /./),
  between: word(["linear", "held"], "linear"),
};

/** Rates of a file, as they stand there: they are not scaled. Before its first row and behind its last they stay. */
const table: Kind = {
  arguments: TABLE,
  open(call, room) {
    const { file: path, between } = argumentsOf(TABLE, call, room), { run, base } = room;
    const { unit, at, rates } = readCsv(path);
    const perTick = unit === "epoch" && !run.byEpoch
      ? 1 / run.stepsPerEpoch
      : unit === "step" && run.byEpoch
      ? run.stepsPerEpoch
      : 1;
    return ofFunction(base, (i) => {
      const x = i * perTick, row = at.findLastIndex((from) => from <= x);
      if (row < 0) return rates[0];
      if (between === "held" || row === at.length - 1) return rates[row];
      return rates[row] + (rates[row + 1] - rates[row]) * (x - at[row]) / (at[row + 1] - at[row]);
    });
  },
};

export const own = { lambda, multiplicative, table } as const;
