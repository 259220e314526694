// The file that the report of a run has where nobody names another.

/** It leaves out what is no part of a file's name. */
export function reportFileName(name: string): string {
  return `${name.replace(/[^\w.+-]+/g, "_").replace(/^\.+/, "").slice(0, 100) || "report"}.html`;
}
