// What a run of many ranks has beside a run of one. May import ffi, dist, its siblings.
import { isFloating } from "../../../ffi/dtype.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import type { Control } from "../../dist/control/control.ts";
import type { Team } from "../../dist/team.ts";
import type { RunningMetrics } from "../running_metrics.ts";
import type { Run } from "../run.ts";
import type { Requests } from "../stop.ts";
import { openReports } from "./reports.ts";
import { openShares, type Shares } from "./shares.ts";

export interface Together {
  readonly team: Team;
  readonly control: Control;
  readonly shares: Shares;
  /** Passes on what this rank was asked for, and that a save is due by the clock. As often as one likes. */
  wish(requests: Requests, due: boolean): void;
  /** To be called after each step: tells now and then how the ranks are doing. */
  stepped(run: Run): void;
  /** Running statistics are rank 0's, as in what it saves. */
  shareBuffers(): void;
  /** The sums over all ranks; `running` itself keeps this rank's. */
  sumsOf(running: RunningMetrics): number[];
}

export function openTogether(
  team: Team,
  control: Control,
  buffers: readonly Tensor[],
  device: Tensor["device"],
): Together {
  const statistics = buffers.filter((t) => isFloating(t.dtype));
  let stopping = false;
  return {
    team,
    control,
    shares: openShares(team, device),
    wish(requests, due) {
      const stop = requests.stop();
      if (stop !== null && !stopping) control.wish("stop", stop);
      stopping ||= stop !== null;
      if (requests.takeSave()) control.wish("save", "request");
      else if (due) control.wish("save", "interval");
    },
    stepped: openReports(team),
    shareBuffers() {
      for (const t of statistics) team.copyFromFirst(t, "running statistics");
    },
    sumsOf: (running) => team.reduce(running.sums(), "sum", "metrics"),
  };
}
