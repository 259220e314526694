// Columns of lists that can't be samples of one shape, with the line that makes numbers of them.

/** The line makes a column of each field. */
export const OF_RECORDS =
  "holds records: make a column of each field, df = df.drop(columns='x').join(pd.json_normalize(df['x']))";

export const OTHER_LISTS =
  "holds lists of other things than numbers: leave it out, or write numbers in their place";

export const unevenLists = (name: string): string =>
  "holds lists of several lengths, or empty ones: give all one length, " +
  `n = df['${name}'].map(len).max(); df['${name}'] = df['${name}'].map(lambda v: list(v) + [0] * (n - len(v)))`;
