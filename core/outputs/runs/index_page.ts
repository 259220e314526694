// The table of runs as one HTML file that sorts and filters, and links the reports that lie beside the runs.
import { isFile } from "../../base/files.ts";
import { dirname, join, relative, resolve } from "../../../deps/path.ts";
import { formatDuration, formatPlural, formatValue } from "../../base/format.ts";
import { embeddedFile, type Html, htmlFile, markup, reportFileName, THEME } from "../report/html.ts";
import { STATE_CLASS } from "../report/summary.ts";
import { shortNames } from "./fields.ts";
import type { RowState, RunRow } from "./row.ts";
import {
  agoText,
  bestRun,
  dateText,
  labelsOf,
  LAST_STEP,
  metricNames,
  type ShownRuns,
  stateText,
  stepsText,
  whyNoBest,
} from "./table.ts";

interface IndexOptions {
  /** Where the page will lie, which its links start from. */
  readonly path: string;
  /** How many runs there were before a filter. */
  readonly all: number;
  readonly top: string;
}

/** Metrics and settings beyond these are in the CSV. */
const MOST_METRICS = 6, MOST_SETTINGS = 24;

export async function indexPage(shown: ShownRuns, options: IndexOptions): Promise<string> {
  return await htmlFile({
    title: `Runs below ${options.top}`,
    sections: [heading(shown, options), cards(shown), controls(shown), table(shown, options.path)],
    style: embeddedFile("runs.css"),
    scripts: [embeddedFile("runs.js")],
    now: shown.now,
  });
}

function heading({ rows }: ShownRuns, { all, top }: IndexOptions): Html {
  const kept = rows.length < all
    ? `${rows.length} of ${formatPlural(all, "run")}, by a filter`
    : formatPlural(all, "run");
  return markup`<header><h1>Runs</h1>${THEME}<p class="about">${kept} below <code>${top}</code></p></header>`;
}

function cards({ rows }: ShownRuns): Html | null {
  if (rows.length === 0) return null;
  const best = bestRun(rows), labels = labelsOf(rows);
  const count = (...states: RowState[]) => rows.filter(({ state }) => states.includes(state)).length;
  const seconds = rows.reduce((sum, row) => sum + (row.seconds ?? 0), 0);
  const card = (name: string, value: string | number, note = "") =>
    markup`<div><dt>${name}</dt><dd>${value}${note && markup`<small>${note}</small>`}</dd></div>`;
  /** Only what there is. */
  const counted = (name: string, of: number, note = "") => of > 0 && card(name, of, note);
  const why = whyNoBest(rows);
  return markup`<dl class="headline">${
    best &&
    card(
      best.metric === "loss"
        ? `least training loss, ${LAST_STEP}`
        : best.metric === "val_loss"
        ? "best validation loss"
        : `best ${best.metric}`,
      formatValue(best.best!),
      labels.get(best),
    )
  }${counted("running", count("running", "starting"))}${counted("done", count("done"))}${
    counted("to go on", count("stopped", "requeued"), "stopped or requeued")
  }${counted("failed", count("failed", "gone", "broken"), "failed, gone or broken")}${
    card("time of all", formatDuration(seconds))
  }</dl>${why !== null && markup`<p class="faint">${why}</p>`}`;
}

function controls({ rows }: ShownRuns): Html {
  const counts = Object.entries(Object.groupBy(rows, ({ state }) => state));
  const chips = counts.map(([state, of]) =>
    markup`<label class="pick"><input type="checkbox" checked value="${state}"><span class="${
      STATE_CLASSES[state as RowState]
    }">${state}</span> ${of!.length}</label>`
  );
  return markup`<form id="controls" role="search"><label class="search"><span>Filter</span><input type="search" id="filter"
 placeholder="unet val_loss&lt;0.3 lr&gt;=1e-4" autocomplete="off" spellcheck="false"></label>
<label class="order"><span>Sort by</span><select id="order"></select></label>
<fieldset><legend>States</legend>${chips}</fieldset><output id="count" for="filter"></output></form>
<noscript><p>Sorting and filtering need JavaScript; the table does not.</p></noscript>`;
}

/** The page is quiet where all is well. */
const STATE_CLASSES: Readonly<Record<RowState, string>> = { ...STATE_CLASS, done: "faint", broken: "bad" };

interface Column {
  /** The filter calls it by any of these. */
  readonly names: readonly string[];
  readonly title: string;
  readonly number?: boolean;
  cell(row: RunRow): { readonly value: string | number | null; readonly shown: string | Html };
}

function columnsOf({ rows, differ, now }: ShownRuns, path: string): Column[] {
  const short = shortNames(differ), best = bestRun(rows), labels = labelsOf(rows);
  const from = dirname(resolve(path)), names = Map.groupBy(rows, ({ run }) => run);
  const numeric = (
    names: readonly string[],
    title: string,
    of: (row: RunRow) => number | null,
    shown: (value: number, row: RunRow) => string | Html,
  ): Column => ({
    names,
    title,
    number: true,
    cell(row) {
      const value = of(row);
      return { value, shown: value === null ? "" : shown(value, row) };
    },
  });
  const mixed = new Set(rows.flatMap(({ metric }) => metric ?? [])).size > 1;
  const all: Column[] = [
    {
      names: ["report"],
      title: "report",
      cell(row) {
        const found = reportOf(row, from, resolve(path), names.get(row.run)!.length === 1);
        return found === null
          ? {
            value: null,
            shown: markup`<span class="faint" title="hpctrain report ${labels.get(
              row,
            )!} writes it">none</span>`,
          }
          : { value: "report", shown: markup`<a href="${addressOf(from, found)}">report</a>` };
      },
    },
    { names: ["state"], title: "state", cell: (row) => ({ value: row.state, shown: stateCell(row) }) },
    numeric(
      ["best", ...(mixed ? [] : [rows.find(({ metric }) => metric !== null)?.metric ?? "val_loss"])],
      mixed
        ? "best"
        : rows.some(({ valLoss }) => valLoss !== undefined)
        ? `best ${rows.find(({ metric }) => metric !== null)!.metric}`
        : rows.every(({ metric }) => metric !== "loss")
        ? "best loss"
        : `loss, ${LAST_STEP}`,
      ({ best }) => best,
      (value, row) =>
        markup`${row === best ? markup`<b class="good">${formatValue(value)}</b>` : formatValue(value)}${
          mixed && row.metric === "loss" ? markup`<small>${LAST_STEP}</small>` : null
        }`,
    ),
    ...metricNames(rows).slice(0, MOST_METRICS).map((name) =>
      numeric(
        [name, `val_${name}`],
        name,
        ({ metrics }) => Object.hasOwn(metrics, name) ? metrics[name] : null,
        formatValue,
      )
    ),
    ...differ.slice(0, MOST_SETTINGS).map((path): Column => ({
      names: [short.get(path)!, path, path.slice(path.lastIndexOf(".") + 1)],
      title: short.get(path)!,
      number: rows.every(({ settings }) => !Number.isNaN(Number(settings.get(path) ?? 0))),
      cell({ settings }) {
        const value = settings.get(path) ?? null;
        return { value, shown: markup`<span class="setting">${value}</span>` };
      },
    })),
    numeric(
      ["step"],
      "steps",
      ({ step, state }) => state === "broken" ? null : step,
      (_, row) => stepsCell(row),
    ),
    numeric(["time"], "time", ({ seconds }) => seconds, formatDuration),
    numeric(["goodput"], "goodput", ({ goodput }) => goodput, (value) => `${value.toFixed(0)}%`),
    numeric(
      ["started"],
      "started",
      ({ started }) => started,
      (value) =>
        markup`<time datetime="${dateText(value)}" title="${dateText(value)}">${agoText(now - value)}</time>`,
    ),
  ];
  const kept = new Set(["report", "state", "best"]);
  return all.filter((column) =>
    kept.has(column.names[0]) || rows.some((row) => column.cell(row).value !== null)
  );
}

const EXPLAINED: ReadonlySet<RowState> = new Set([
  "failed",
  "gone",
  "broken",
  "silent",
  "requeued",
  "stopped",
]);

function stateCell(row: RunRow): Html {
  const why = [EXPLAINED.has(row.state) ? row.why : "", row.problem ?? ""].filter((sentence) =>
    sentence !== ""
  ).join(
    "; ",
  );
  return markup`<span class="state ${STATE_CLASSES[row.state]}">${stateText(row)}</span>${
    why !== "" && markup`<small title="${why}">${why}</small>`
  }`;
}

function stepsCell(row: RunRow): Html {
  const { step, steps, state } = row;
  return markup`${stepsText(row)}${
    steps !== null && state !== "done" &&
    markup`<progress aria-label="steps done" max="${steps}" value="${Math.min(step, steps)}"></progress>`
  }`;
}

function table(shown: ShownRuns, path: string): Html {
  const { rows } = shown, labels = labelsOf(rows), columns = columnsOf(shown, path);
  const best = bestRun(rows);
  const head = ({ names, title, number }: Column) =>
    markup`<th scope="col" data-name="${names.join(" ")}"${
      number ? NUMBER : null
    }><button type="button">${title}</button></th>`;
  const cell = (column: Column, row: RunRow) => {
    const { value, shown } = column.cell(row);
    return markup`<td data-name="${column.title}" data-value="${value ?? ""}"${
      column.number ? NUMBER : null
    }>${shown}</td>`;
  };
  return markup`<div class="wide" id="runs" tabindex="0" role="region" aria-label="Runs"><table><thead><tr>${
    head({ names: ["run"], title: "run", cell: () => ({ value: null, shown: "" }) })
  }${columns.map(head)}</tr></thead><tbody>${
    rows.map((row) =>
      markup`<tr data-state="${row.state}"><th scope="row" data-value="${row.run}" title="${row.folder}">${labels
        .get(row)!}${row === best && rows.length > 1 ? markup` <span class="badge">best</span>` : null}</th>${
        columns.map((column) => cell(column, row))
      }</tr>\n`
    )
  }</tbody></table></div><p class="faint">The report of a run is linked where it lies in the run's folder, beside it,
 beside logs/ or beside this page. <code>hpctrain report RUN</code> writes one.</p>`;
}

const NUMBER = markup` class="number"`;

/** `hpctrain report` writes it where it is called, which is mostly the folder beside logs/. */
function reportOf(
  { folder, run, state }: RunRow,
  from: string,
  page: string,
  single: boolean,
): string | null {
  if (state === "broken") return null;
  const logs = dirname(resolve(folder)), file = reportFileName(run);
  const places = [join(resolve(folder), "report.html"), join(logs, file), join(dirname(logs), file)];
  if (single) places.push(join(from, file));
  return places.find((place) => place !== page && isFile(place)) ?? null;
}

/** It never begins with a scheme, whatever folders are called. */
const addressOf = (from: string, path: string): string =>
  `./${relative(from, path).split("/").map(encodeURIComponent).join("/")}`;
