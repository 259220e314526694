// `--data-type synthetic`: made up for the model.
import { madeUp } from "./made_up.ts";
import { synthetic } from "./synthetic.ts";

export const formats = { synthetic: madeUp(synthetic) };
