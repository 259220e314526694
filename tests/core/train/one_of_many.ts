// A run of one rank that goes the ways of many: it agrees on what it does, and its sums pass through a team. Test helper.
import { aloneControl as aloneInControl, type Control } from "../../../core/ranks/control/control.ts";
import { aloneCollectives } from "../../../core/ranks/collectives.ts";
import { openTeam } from "../../../core/ranks/team.ts";
import { openRankGroup, type RankGroup } from "../../../core/train/rank_group.ts";
import type { Trainer } from "../../../core/train/trainer.ts";

const HELLO = {
  rank: 0,
  world: 1,
  localRank: 0,
  host: "here",
  pid: 0,
  device: null,
  versions: {},
  settings: "",
};

export function oneOfMany(run: Trainer, more: Partial<Control> = {}): RankGroup {
  const control = { ...aloneInControl(HELLO), ...more };
  const buffers = run.pass.model.root.namedBuffers().map(([, t]) => t);
  const group = openRankGroup(openTeam(aloneCollectives(), "cpu"), control, buffers, {
    device: "cpu",
    dtype: "f32",
  });
  return { ...group, stepped() {} }; // reports look at gradients, which a run of one does not keep
}
