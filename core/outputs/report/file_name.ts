// The file that the report of a run has where nobody names another.

/** What is no part of a file's name is left out. */
export function reportFileName(name: string): string {
  return `${name.replace(/[^\w.+-]+/g, "_").replace(/^\.+/, "").slice(0, 100) || "report"}.html`;
}
