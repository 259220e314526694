// The table of event fields: what it says of each number is what readers do and what the docs list.
// HPCTRAIN_WRITE_DOCS=1 writes the docs' table anew.
import { assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { EVENT_FIELDS, type EventField } from "../../../core/run/events.ts";
import { TIME_PARTS } from "../../../core/run/account.ts";

const DOCS = fromFileUrl(new URL("../../../docs/tracking.md", import.meta.url));
const BEGIN = "<!-- event fields -->", END = "<!-- /event fields -->";

const kinds = Object.entries<Record<string, EventField>>(EVENT_FIELDS);
const all = kinds.flatMap(([kind, fields]) =>
  Object.entries(fields).map(([name, field]) => ({ kind, name, ...field }))
);

/** The rows of the docs' table, without the spaces that align its columns. */
const cellsOf = (markdown: string): string[][] =>
  markdown.trim().split("\n").map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()))
    .filter(([first]) => !/^-*$/.test(first));

function tableOfDocs(): string {
  const code = (word: string) => `\`${word}\``;
  const rows = all.map(({ kind, name, unit, wandb = name, about }) => [
    code(kind),
    code(name),
    unit === "value" ? "" : unit,
    wandb === null ? "" : code(wandb),
    about,
  ]);
  return [["kind", "number", "unit", "at W&B", "what it is"], Array(5).fill("---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

Deno.test("the docs list each number of events with its kind, unit and name at W&B", () => {
  const text = Deno.readTextFileSync(DOCS), from = text.indexOf(BEGIN) + BEGIN.length, to = text.indexOf(END);
  if (Deno.env.get("HPCTRAIN_WRITE_DOCS")) {
    Deno.writeTextFileSync(DOCS, `${text.slice(0, from)}\n\n${tableOfDocs()}\n\n${text.slice(to)}`);
    return;
  }
  assertEquals(cellsOf(text.slice(from, to)), cellsOf(tableOfDocs()));
});

Deno.test("no two numbers have one name at W&B, and each part of time is there", () => {
  const names = all.map(({ name, wandb = name }) => wandb).filter((name) => name !== null);
  assertEquals(names.length, new Set(names).size);
  const parts = Object.keys(EVENT_FIELDS.times).filter((name) => /(?<!per)_s$/.test(name));
  assertEquals(parts, TIME_PARTS.map((part) => `${part}_s`));
});
