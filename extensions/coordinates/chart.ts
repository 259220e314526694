// Parallel coordinates on the page of a sweep: each run is a line over its settings.
import { markup } from "../../core/outputs/report/html.ts";
import type { SweepChart } from "../../core/cluster/sweep/page.ts";

const own = (name: string): string =>
  Deno.readTextFileSync(new URL(`./page/${name}`, import.meta.url)).trim();

export const chart: SweepChart = {
  section: () =>
    markup`<section id="lines"><h2>All runs over their settings</h2>
<p class="faint">Each line is a run, the best ones are the strongest. Drag along an axis to keep the runs that cross it
 there, or move its two handles by the arrow keys; Escape lets all back in.</p>
<div id="parallel"></div><p id="seen" aria-live="polite"></p>
<noscript><p>The lines need JavaScript; the table does not.</p></noscript></section>`,
  style: own("coordinates.css"),
  script: own("coordinates.js"),
};
