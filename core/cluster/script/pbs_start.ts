// How a PBS script starts ranks: mpiexec of the site, mpiexec of PALS, or pbsdsh. Pure.
import { command, partly } from "./body.ts";
import type { Job } from "./job.ts";

export function startPbs(job: Job): string[] {
  const { layout, site: { pbs } } = job;
  const bySlots = pbs.launch === "pbsdsh";
  const anew = "hpctrain qsub makes it, with";
  const counted = [
    ...["# Nodes in the job's order; how many of them are used, and the ranks on each."],
    "mapfile -t hosts < <(awk '!seen[$0]++' \"$PBS_NODEFILE\")",
    `nodes=\${#hosts[@]} tasks=${layout.ranksPerNode}`,
    ...partly(job, { NODES: `${anew} --nodes $NODES.`, GPUS: `${anew} --gpus-per-node $GPUS.` }),
    ...passed(job),
  ];
  if (bySlots) return [...counted, ...byPbsdsh(job)];
  return [...counted, ...byMpiexec(job)];
}

/** Not every mpiexec hands the environment on to other nodes, and pbsdsh hands on nothing. */
function passed({ site, inherited }: Job): string[] {
  const own = [
    ...site.env.map((pair) => pair.slice(0, pair.indexOf("="))),
    ...inherited.map(([name]) => name),
  ];
  const names = [...new Set(["PATH", "LD_LIBRARY_PATH", "PBS_JOBID", "HPCTRAIN_ENDED", ...own])];
  return [
    "environment=()",
    `for name in ${names.join(" ")} "\${!HPCTRAIN_@}"; do`,
    '  if [[ -n ${!name:-} && $name != HPCTRAIN_SECRET ]]; then environment+=("$name=${!name}"); fi', // `ps` shows it
    "done",
  ];
}

/** In its one task on each node, which knows its number from whoever started it. */
function launched(job: Job): Job {
  const [n, nodes] = [{ shell: '"$tasks"' }, { shell: '"$nodes"' }];
  const rendezvous = { shell: '"${hosts[0]}:$port"' };
  const words = ["launch", "-n", n, "--nodes", nodes, "--rendezvous", rendezvous, "--", ...job.words];
  return { ...job, words };
}

const NUMBERED =
  'bash -c "NODE_RANK=\\${OMPI_COMM_WORLD_RANK:-\\${PMI_RANK:-\\${PALS_RANKID:-0}}} exec \\"\\$@\\"" bash';

function byMpiexec(job: Job): string[] {
  const perNode = job.layout.tasks === "per-node";
  const own = perNode ? launched(job) : job;
  const starter = [ENV, ...(perNode ? [NUMBERED] : asCommand(job))];
  const all = perNode ? '"$nodes"' : '"$((nodes * tasks))"';
  const port = perNode ? [PORT] : [];
  if (job.site.pbs.launch === "pals") {
    const ppn = perNode ? "1" : '"$tasks"';
    return [
      "",
      ...port,
      ...command(own, [`mpiexec -n ${all} --ppn ${ppn} --hostfile "$PBS_NODEFILE"`, ...starter]),
    ];
  }
  const once = '  echo "$host"';
  return [
    "",
    `# Each node once${
      perNode ? "" : " for each of its ranks"
    }. No rank is to be bound to a single core: it has threads.`,
    ...port,
    "hostfile=$(mktemp)",
    'for host in "${hosts[@]:0:nodes}"; do',
    perNode ? once : `  for ((i = 0; i < tasks; i++)); do echo "$host"; done`,
    'done >"$hostfile"',
    "export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none",
    ...command(own, [`mpiexec --hostfile "$hostfile" -n ${all}`, ...starter]),
    'rm -f -- "$hostfile"',
  ];
}

const asCommand = ({ program: [file] }: Job) => file.includes("=") ? [AS_COMMAND] : [];

/** Ranks of two jobs on a node are not to meet. */
const PORT = "port=$((20000 + ${PBS_JOBID%%[!0-9]*} % 12000))";

const ENV = 'env "${environment[@]}"';
/** env would take a path with an equals sign in it for one more variable. */
const AS_COMMAND = 'bash -c "exec \\"\\$@\\"" bash';

/** A task of pbsdsh has a number in the list of nodes, no environment, and its owner's home as its folder. */
function byPbsdsh(job: Job): string[] {
  const own: Job = {
    ...job,
    words: [
      ...["launch", "-n", { shell: '"$tasks"' }, "--nodes", { shell: '"$nodes"' }],
      ...["--node-rank", { shell: '"$node"' }, "--rendezvous", { shell: '"${hosts[0]}:$port"' }],
      ...["--", ...job.words],
    ],
  };
  const [, line] = command(own, [
    'pbsdsh -n "$slot" -- "$(command -v env)" -C "$PWD" "${environment[@]}"',
    ...asCommand(job),
  ]);
  return [
    "",
    "# One task on each node, which starts the ranks there.",
    PORT,
    "node=0 pids=()",
    "while read -r slot; do",
    "  if ((node == nodes)); then break; fi",
    ...line.replace(/ \|\| code=\$\?$/, " </dev/null &").split("\n").map((text) => `  ${text}`),
    "  pids+=($!) node=$((node + 1))",
    "done < <(awk '!seen[$0]++ {print NR - 1}' \"$PBS_NODEFILE\")",
    "code=0",
    'for pid in "${pids[@]}"; do wait "$pid" || code=$?; done',
  ];
}
