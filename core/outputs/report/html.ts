// HTML that escapes every value, and bars of shares as SVG.

export class Html {
  constructor(readonly text: string) {}
}

type Part = string | number | Html | readonly Part[] | null | false | undefined;

export function markup(strings: TemplateStringsArray, ...values: Part[]): Html {
  return new Html(strings.reduce((out, string, i) => out + textOf(values[i - 1]) + string));
}

function textOf(part: Part): string {
  if (part === null || part === undefined || part === false) return "";
  if (part instanceof Html) return part.text;
  return Array.isArray(part) ? part.map(textOf).join("") : escaped(String(part));
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * Replaces control characters, characters that reverse the direction of text, and halves of surrogate pairs.
 */
export const escaped = (text: string): string =>
  text.toWellFormed()
    // deno-lint-ignore no-control-regex
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "\ufffd")
    .replace(/[&<>"']/g, (character) => ENTITIES[character]);

/** Nothing in it ends the script element or opens a comment. */
export const scriptJson = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

export interface BarShare {
  readonly name: string;
  readonly value: number;
  /** 8 is the faint colour. */
  readonly hue: number;
}

export function shareBar(shares: readonly BarShare[], whole: number): Html {
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

export const shareLegend = (shares: readonly Pick<BarShare, "name" | "hue">[]): Html =>
  markup`
    <p class="legend">${
    shares.map(({ name, hue }) =>
      markup`
        <span class="key"><i class="swatch h${hue}"></i>${name}</span>
      `
    )
  }</p>
  `;

/** The table sorts by the column whose head is pressed. */
export const headCell = (name: string, number = false): Html =>
  markup`<th scope="col"${
    number ? new Html(' class="number"') : null
  }><button type="button">${name}</button></th>`;

/** A part of a page that is opened to be seen; null where it has nothing. */
export const foldedPart = (id: string, title: string, note: string, body: Html | null): Html | null =>
  body &&
  markup`<details id="${id}" class="part"><summary><h2>${title}</h2><span class="faint">${note}</span></summary>
${body}</details>`;
