// Takes the scheduler's programs off PATH, so that tests meet the schedulers that they make and never a site's own: on a login
// node an `sbatch --test-only` would ask a real controller.

/** These are the programs of SLURM, PBS and Torque. */
const CLIENTS = new Set(
  ("sacct sacctmgr salloc sattach sbatch sbcast scancel scontrol scrontab sdiag sinfo sprio squeue sreport srun sshare sstat " +
    "strigger sview qsub qstat qdel qalter qhold qrls qrerun qsig qmove qmsg qorder qselect qmgr pbsnodes pbsdsh pbs_tmrsh aprun palsrun")
    .split(" "),
);

/** PATH, where each folder that has one of them gives way to a folder of links to all else in it, made below `folder`. */
export function withoutSchedulers(path: string, folder: string): string {
  return path.split(":").map((place, i) => {
    const names = namesIn(place);
    if (!names.some((name) => CLIENTS.has(name))) return place;
    const links = `${folder}/${i}`;
    Deno.mkdirSync(links);
    for (const name of names.filter((name) => !CLIENTS.has(name))) {
      Deno.symlinkSync(`${Deno.realPathSync(place)}/${name}`, `${links}/${name}`);
    }
    return links;
  }).join(":");
}

function namesIn(place: string): string[] {
  try {
    return [...Deno.readDirSync(place)].map(({ name }) => name);
  } catch {
    return []; // a PATH may name what is not there
  }
}
