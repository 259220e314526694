// A model by the name of its file. Imports nothing.

/** Whether a model's name is the path of an exported program. */
export const isExported = (name: string): boolean => /\.pt2$/i.test(name);
