// The settings of a run with where each came from, its environment, and its warnings.
import { formatCount } from "../../base/format.ts";
import { flat } from "../../run/flat_settings.ts";
import type { RunData } from "../../run/run_data.ts";
import { gpuLine } from "../../run/console.ts";
import { dateOf, type Html, markup } from "./html.ts";

export function configurationSection({ config, origins }: RunData): Html | null {
  const all = flat(config);
  if (all.length === 0 || Object.keys(config).length === 0) return null;
  const own = all.filter(([path]) => Object.hasOwn(origins, path));
  const table = (rows: [string, string][]) =>
    markup`
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th>setting</th>
              <th>value</th>
              <th>from</th>
            </tr>
          </thead>
          <tbody>${
      rows.map(([path, value]) =>
        markup`
              <tr>
                <td><code>${path}</code></td>
                <td><code>${value}</code></td>
                <td class="faint">${Object.hasOwn(origins, path) ? String(origins[path]) : "default"}</td>
              </tr>
            `
      )
    }</tbody>
        </table>
      </div>
    `;
  // Logs of older versions have no origins, so the report folds all settings.
  return markup`
    <section id="configuration">
      <h2>Configuration</h2>${own.length > 0 ? table(own) : null}
      <details><summary>All ${all.length} settings</summary>${table(all)}</details>
    </section>
  `;
}

export function environmentSection({ run, folder, begunAt, lastAt, lineage, config }: RunData): Html | null {
  if (run === null) return null;
  const rows: [string, string][] = [
    ["hpctrain", String(run.version)],
    [
      "libtorch",
      run.libtorch_from
        ? `${run.libtorch}, ${run.libtorch_from}`
        : `${run.libtorch}${libtorchFolder(config)}`,
    ],
    ["device", `${run.world_size} x ${run.device}`],
    ...(run.gpu ? [["GPU", gpuLine(run.gpu).replace(/^GPU: /, "")] satisfies [string, string]] : []),
    ["host", `${run.host}, process ${run.pid}`],
    [
      "jobs",
      [...new Set(lineage?.attempts.map(({ job_id }) => job_id).filter((id) => id !== null) ?? [])].join(
        ", ",
      ),
    ],
    ["model", `${run.model}, ${formatCount(Number(run.parameters))} parameters (${run.parameters})`],
    ["begun", begunAt === null ? "" : dateOf(begunAt)],
    ["last event", lastAt === null ? "" : dateOf(lastAt)],
    ["folder", folder],
  ];
  const command = Array.isArray(run.command)
    ? ["hpctrain", ...run.command.map((word) => quoted(String(word)))].join(" ")
    : "";
  return markup`
    <section id="environment">
      <h2>Environment</h2>${
    command === "" ? null : markup`
        <pre><code>${command}</code></pre>
      `
  }
      <div class="wide"><table><tbody>${
    rows.filter(([, value]) => value !== "").map(([name, value]) =>
      markup`
          <tr>
            <th scope="row">${name}</th>
            <td>${value}</td>
          </tr>
        `
    )
  }</tbody></table></div>
    </section>
  `;
}

function libtorchFolder(config: RunData["config"]): string {
  const { environment } = config as { environment?: { libtorch?: unknown } };
  return typeof environment?.libtorch === "string" && environment.libtorch !== ""
    ? ` in ${environment.libtorch}`
    : "";
}

const quoted = (word: string): string =>
  /^[\w./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

export function warningsSection({ warnings, warningCount, lineageError }: RunData): Html | null {
  const notes = lineageError === null ? [] : [lineageError];
  if (warnings.length === 0 && notes.length === 0) return null;
  const count = warningCount > warnings.length ? ` (the last ${warnings.length} of ${warningCount})` : "";
  return markup`
    <section id="warnings">
      <h2>Warnings${count}</h2>
      <ul class="warnings">${
    notes.map((note) =>
      markup`
          <li>${note}</li>
        `
    )
  }${
    warnings.toReversed().map(({ t, message, step }) =>
      markup`
          <li><time>${dateOf(t)}${step === undefined ? "" : `, step ${step}`}</time>${message}</li>
        `
    )
  }</ul>
    </section>
  `;
}
