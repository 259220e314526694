// A table of learning rates: two columns, step (or epoch) and rate.
import { messageOf, UserError } from "../../base/errors.ts";

export interface RatesTable {
  readonly unit: "step" | "epoch";
  /** Steps or epochs, which rise. */
  readonly at: readonly number[];
  readonly rates: readonly number[];
}

export function readCsv(path: string): RatesTable {
  const lines = textOf(path).split(/\r?\n/);
  const rows = lines.map((line, i) => ({
    number: i + 1,
    cells: line.split(/[,;\t]/).map((cell) => cell.trim()),
  }))
    .filter(({ cells }) => cells.some((cell) => cell !== "") && !cells[0].startsWith("#"));
  const refuse = (row: number, what: string): never => {
    throw new UserError("usage", `${path}:${row}: ${what}`);
  };
  const [first] = rows, named = first && first.cells.some((cell) => Number.isNaN(Number(cell)));
  const unit = named ? first.cells[0].toLowerCase().replace(/s$/, "") : "step";
  if (unit !== "step" && unit !== "epoch") {
    refuse(
      first.number,
      `its first column is "${first.cells[0]}", and should be step or epoch, the second the rate.`,
    );
  }
  const body = named ? rows.slice(1) : rows;
  if (body.length === 0) {
    throw new UserError(
      "usage",
      `${path} has no rates: a line such as "0,0.001" gives the rate from step 0 on.`,
    );
  }
  const at: number[] = [], rates: number[] = [];
  for (const { number, cells } of body) {
    const [x, rate] = cells.slice(0, 2).map((cell) => cell === "" ? NaN : Number(cell));
    if (cells.length !== 2 || !Number.isFinite(x) || !Number.isFinite(rate)) {
      refuse(
        number,
        `a row is two numbers, ${unit} and rate, and this is "${cells.join(",").slice(0, 60)}".`,
      );
    }
    if (x < 0 || rate < 0) refuse(number, `neither ${unit}s nor rates are below 0.`);
    if (at.length > 0 && x <= at.at(-1)!) {
      refuse(number, `${unit} ${x} follows ${unit} ${at.at(-1)}, and ${unit}s rise.`);
    }
    at.push(x);
    rates.push(rate);
  }
  return { unit: unit as RatesTable["unit"], at, rates };
}

function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (cause) {
    const why = cause instanceof Deno.errors.NotFound ? "is not there" : `can't be read: ${messageOf(cause)}`;
    throw new UserError("usage", `--scheduler table(${path}): the file ${why}.`, { cause });
  }
}
