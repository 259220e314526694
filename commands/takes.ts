// Which settings a command takes as flags: its help lists them, shells complete them, and others are refused. Imports nothing.

/** Whether a setting's path is among them. */
export type Takes = (path: string) => boolean;

const of = (...patterns: readonly RegExp[]): Takes => (path) =>
  patterns.some((pattern) => pattern.test(path));

const DATA = /^data\./;
const HERE = /^(environment\.|training\.(device|threads)$|output\.(quiet|json)$)/;
const PLACE = /^distributed\.(backend|world_size|rank|local_rank|master_addr|master_port|timeout|network)$/;
/** How a model computes, whatever it was trained by. */
const FORWARD = /^training\.(batch_size|eval_batch_size|amp|tf32|channels_last|deterministic|metric)$/;
const ITS_FILE = /^model\.(name|inputs|blocks)$/;

export const TAKES = {
  eval: of(DATA, HERE, FORWARD, ITS_FILE),
  predict: of(DATA, HERE, FORWARD, ITS_FILE, PLACE),
  pack: of(DATA, HERE, PLACE, /^model\.|^training\.(loss|seed)$/),
  doctor: of(HERE, PLACE, /^output\.save_dir$|^data\.|^distributed\.|^wandb\./),
  bench: of(HERE, PLACE, /^distributed\./),
  models: of(DATA, HERE, /^model\.|^training\.(optimizer\.type|amp|loss|seed|gradient_checkpointing|ema)$/),
} as const;
