// Shares as bars, drawn as SVG so that they need no script. Imports html.
import { Html, markup } from "./html.ts";

export interface Share {
  readonly name: string;
  readonly value: number;
  /** Which colour; 8 is the faint one. */
  readonly hue: number;
}

/** Side by side; `whole` is what fills the bar. */
export function bar(shares: readonly Share[], whole: number): Html {
  let at = 0;
  const parts = shares.map(({ name, value, hue }) => {
    const width = whole > 0 ? Math.max(0, 1000 * value / whole) : 0;
    const part = markup`
      <rect class="h${hue}" x="${at.toFixed(1)}" y="0" width="${width.toFixed(1)}" height="18">
        <title>${name}</title>
      </rect>
    `;
    at += width;
    return part;
  });
  return markup`
    <svg class="bar" viewBox="0 0 1000 18" preserveAspectRatio="none" role="img" aria-label="${
    shares.map((
      { name },
    ) => name).join(", ")
  }">
      ${parts}
    </svg>
  `;
}

export const key = (shares: readonly Pick<Share, "name" | "hue">[]): Html =>
  markup`
    <p class="legend">${
    shares.map(({ name, hue }) =>
      markup`
        <span class="key"><i class="swatch h${hue}"></i>${name}</span>
      `
    )
  }</p>
  `;
