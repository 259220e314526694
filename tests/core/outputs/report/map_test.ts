// Coasts, ticks and colours of maps.
import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  coastOf,
  Coasts,
  colourScale,
  mapFigure,
  niceNumbers,
  tickText,
} from "../../../../core/outputs/report/map.ts";
import type { Plane } from "../../../../core/data/preview/look.ts";
import { textOf } from "./reports.ts";

const plane = (rows: readonly (readonly number[])[]): Plane => ({
  width: rows[0].length,
  height: rows.length,
  values: Float64Array.from(rows.flat()),
});

Deno.test("a coast is around what is missing, and not along the edge of the map", () => {
  const island = plane([[1, 1, 1, 1], [1, NaN, NaN, 1], [1, 1, NaN, 1]]);
  assertEquals(coastOf(island), "M1 1h2M1 2h1M1 1v1M2 2v1M3 1v2");
  assertEquals(coastOf(plane([[1, 2], [3, 4]])), "");
});

Deno.test("a page draws a coast once for all maps that have it, and none that is like noise", () => {
  const coasts = new Coasts(), drawn = (path: string) => coasts.drawn(path, "scale(1 1)")?.text;
  assertStringIncludes(drawn("M1 1h2")!, 'd="M1 1h2"');
  assertEquals(drawn("M1 1h2"), '<use class="halo" href="#coast0"/><use class="coast" href="#coast0"/>');
  assertStringIncludes(drawn("M2 1h2")!, 'id="coast1"');
  assertEquals(drawn("M1 1h2".repeat(20_000)), undefined);
});

Deno.test("ticks are round numbers within the range, and degrees are halves, quarters and eighths of a circle", () => {
  assertEquals(niceNumbers(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assertEquals(niceNumbers(-3.2, 7.9), [-2.5, 0, 2.5, 5, 7.5]);
  assertEquals(niceNumbers(-90, 90, true), [-90, -45, 0, 45, 90]);
  assertEquals(niceNumbers(0, 359, true), [0, 90, 180, 270]);
  assertEquals(niceNumbers(5, 5), [5]);
  assertEquals([-0.5, 0, 123_456_789, 2e-7].map(tickText), ["−0.5", "0", "1.23456789e8", "2e−7"]);
});

Deno.test("values around zero are blue and red to the same depth; others, and few of the other sign, are not", () => {
  assertEquals(colourScale([plane([[-2, 0, 4]])]), { scale: "diverging", range: [-4, 4] });
  assertEquals(colourScale([plane([[-0.1, 3, 4]])]), { scale: "sequential", range: [-0.1, 4] });
  assertEquals(colourScale([plane([[NaN, NaN]])]), { scale: "sequential", range: [0, 1] });
  // One point that is far from all does not take all colours.
  const odd = plane([Array.from({ length: 1000 }, (_, i) => i === 500 ? 1e9 : i % 10)]);
  assertEquals(colourScale([odd]).range, [0, 9]);
});

Deno.test("a map has north up, degrees as they are said, and its names only as text", () => {
  const map = (title: string, lat: number[]) =>
    mapFigure({
      ...{ title, scale: "sequential", range: [0, 3], units: "<b>K</b>", land: null, mostPoints: 100 },
      plane: plane([[0, 0], [3, 3]]),
      axes: {
        y: { name: "lat", units: "degrees_north", values: Float64Array.from(lat) },
        x: { name: "lon", units: "degrees_east", values: Float64Array.of(0, 270) },
      },
      coasts: new Coasts(),
    });
  const up = map("<i>", [-45, 45]), down = map("<i>", [45, -45]);
  const image = ({ text }: { text: string }) => /<image [^>]*href="([^"]*)"/.exec(text)![1];
  assertEquals(image(up) === image(down), false);
  assertEquals(textOf(up).match(/\S+°\S*/g), ["30°S", "0°", "30°N", "0°", "60°E", "120°E", "180°", "120°W"]);
  assertEquals(up.text.includes("<i>") || up.text.includes("<b>"), false);
});
