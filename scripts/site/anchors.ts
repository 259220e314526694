// The anchors of headings, as Markdown viewers make them.

/** Small letters, hyphens for blanks, no punctuation. */
const anchorOf = (title: string): string => title.toLowerCase().replace(/[^\w\- ]/g, "").replaceAll(" ", "-");

/** A second heading of the same words gets a number. */
export function uniqueAnchors(): (title: string) => string {
  const seen = new Map<string, number>();
  return (title) => {
    const anchor = anchorOf(title), before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  };
}
