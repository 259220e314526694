// The table of event fields: the site lists every number, and docs/tracking.md those of a step.
import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "paths";
import { EVENT_FIELDS, type EventField } from "../../../core/run/events.ts";
import { TIME_PARTS } from "../../../core/run/account.ts";
import { madeParts } from "../../../scripts/site/made.ts";

const DOCS = fromFileUrl(new URL("../../../docs/tracking.md", import.meta.url));

const kinds = Object.entries<Record<string, EventField>>(EVENT_FIELDS);
const all = kinds.flatMap(([kind, fields]) =>
  Object.entries(fields).map(([name, field]) => ({ kind, name, ...field }))
);

/** The cells of the rows of a table, without its head. */
const cellsOf = (markdown: string): string[][] =>
  markdown.trim().split("\n").slice(2).map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));

Deno.test("the site lists each number of events with its kind, unit, name at W&B and meaning", async () => {
  const rows = cellsOf((await madeParts()).get("event fields")!);
  assertEquals(
    rows.map(([kind, name]) => `${kind} ${name}`),
    all.map(({ kind, name }) => `\`${kind}\` \`${name}\``),
  );
  for (const [i, { name, unit, wandb = name, about }] of all.entries()) {
    assertEquals(rows[i].slice(2), [
      unit === "value" ? "" : unit,
      wandb === null ? "" : `\`${wandb}\``,
      about,
    ]);
  }
});

Deno.test("docs/tracking.md names every number of a step, of times and of ranks, and W&B's names follow its rule", () => {
  const page = Deno.readTextFileSync(DOCS);
  for (const { kind, name, wandb } of all.filter(({ kind }) => kind !== "system")) {
    assertMatch(page, new RegExp(`^\\| \`${kind}\` .*\`${name}\``, "m"), `${kind} ${name}`);
    const [folder, called] = kind === "step" ? ["train", name] : ["time", name.replace(/(?<!per)_s$/, "_ms")];
    if (kind !== "ranks") assertEquals(wandb, `${folder}/${called}`);
  }
});

Deno.test("no two numbers have one name at W&B, and each part of time is there", () => {
  const names = all.map(({ name, wandb = name }) => wandb).filter((name) => name !== null);
  assertEquals(names.length, new Set(names).size);
  const parts = Object.keys(EVENT_FIELDS.times).filter((name) => /(?<!per)_s$/.test(name));
  assertEquals(parts, TIME_PARTS.map((part) => `${part}_s`));
});
