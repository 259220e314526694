// A run of one rank that goes the ways of many: it agrees on what it does, and its sums pass through a team. Test helper.
import { alone as aloneInControl } from "../../../core/dist/control/alone.ts";
import type { Control } from "../../../core/dist/control/control.ts";
import { alone } from "../../../core/dist/alone.ts";
import { openTeam } from "../../../core/dist/team.ts";
import { openTogether, type Together } from "../../../core/train/parallel/together.ts";
import type { Run } from "../../../core/train/run.ts";

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

export function oneOfMany(run: Run, more: Partial<Control> = {}): Together {
  const control = { ...aloneInControl(HELLO), ...more };
  const buffers = run.step.pass.model.root.namedBuffers().map(([, t]) => t);
  const together = openTogether(openTeam(alone(), "cpu"), control, buffers, "cpu");
  return { ...together, stepped() {} }; // reports look at gradients, which a run of one does not keep
}
