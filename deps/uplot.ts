// The plotting library that reports carry, out of its npm package. Its files are found by the name in deno.json, because
// `npm:` specifiers have no path: so this one is the program's alone, and nothing that mod.ts gives may import it.

// Never called: an import that can be seen is what makes `deno compile` embed the package.
export const embedded = (): Promise<unknown> => import("uplot");

/** Its code and its style sheet, with the notice that its licence asks for. */
export function uplot(): { script: string; style: string } {
  const script = new URL(import.meta.resolve("uplot/dist/uPlot.iife.min.js"));
  const read = (url: URL) => Deno.readTextFileSync(url).trim();
  return { script: `${NOTICE}\n${read(script)}`, style: read(new URL("uPlot.min.css", script)) };
}

const NOTICE =
  "/*! uPlot, Copyright (c) 2022 Leon Sorokin, MIT licence: https://opensource.org/licenses/MIT */";
