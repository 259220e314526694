// Words as a person pastes them into a shell.

/** Only what a shell would read otherwise is put into quotes. */
export const quoted = (words: readonly string[]): string =>
  words.map((word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`).join(" ");
