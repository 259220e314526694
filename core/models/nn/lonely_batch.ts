import { UserError } from "../../base/errors.ts";

/** A batch norm can't train on a batch of one sample, as it gets it. Apart from norms.ts, whose names are what users write with. */
export class LonelyBatch extends UserError {}
