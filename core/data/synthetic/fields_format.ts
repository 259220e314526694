// `--data-type fields`: Gaussian random fields, for the quickstart.
import { fields } from "./fields.ts";
import { madeUp } from "./made_up.ts";

export const formats = { fields: madeUp(fields) };
