// `--data-type fields`: Gaussian random fields, for the quickstart.
import { fields } from "./fields.ts";
import { madeUp } from "./format.ts";

export const formats = { fields: madeUp(fields) };
