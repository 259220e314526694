// PBS Pro, OpenPBS or Torque: a job as a script for qsub, which is submitted and found again.
import { UserError } from "../../base/errors.ts";
import {
  ADDRESSES,
  architecture,
  command,
  ENDED,
  head,
  madeBy,
  OF_THE_SIZE,
  overriding,
  partly,
  pbsLine,
  pbsOption,
  REFUSE,
  STRICT,
  surroundings,
  wrapped,
} from "./body.ts";
import { runSubmit, submit } from "../jobs.ts";
import { requestSentence, type ScriptJob, slug, tasksOf } from "./job.ts";
import type { Scheduler } from "./scheduler.ts";
import { quote } from "../../base/shell.ts";

export const scheduler: Scheduler = {
  short: {},
  needsFolder: false,
  queue: "qstat",
  cancel: "qdel",
  render: renderPbs,
  output: (job, id) => `${pbsLogs(job)}/${slug(job.name)}.${id}.out`,
  index: ({ site }) => site.pbs.dialect === "torque" ? "PBS_ARRAYID" : "PBS_ARRAY_INDEX",
  checkFolder() {},
  hint: () => Promise.resolve([]),
  async tryOut() {
    const version = await runSubmit("qstat", ["--version"]);
    return version
      ? `PBS: ${version.stdout || version.stderr}; it checks a job when it is submitted`
      : "PBS: not asked, there is no qstat in PATH";
  },
  submit: (job, path) => submit("qsub", [], path, requestSentence(job)),
};

export function renderPbs(job: ScriptJob): string {
  refuseForeign(job);
  return [
    ...head(job, [
      `Submit it with \`qsub FILE\`${
        job.overrides.length > 0 ? ", or with changes: `qsub -v EPOCHS=200,LR=1e-4 FILE`." : "."
      }`,
    ]),
    ...directives(job),
    ...output(job),
    ...surroundings(job, (names) => `qsub -v ${names} FILE`),
    ...STRICT,
    ...architecture(job),
    ...ADDRESSES,
    ...REFUSE,
    ...overriding(job),
    ...again(job),
    ...madeBy(job),
    ...(goesBack(job) ? ENDED : []),
    "",
    ...startPbs(job),
    ...ending(job),
  ].join("\n") + "\n";
}

const pbsLogs = ({ logs }: ScriptJob): string => `${logs}/pbs`;

function directives(job: ScriptJob): string[] {
  const { layout, limits, ending, site, array } = job;
  const torque = site.pbs.dialect === "torque";
  const listed = limits.more.flatMap((option) => /^-v\s*(.+)$/.exec(option)?.[1] ?? []).slice(-1); // the last -v counts
  const lines: [string, string][] = [
    ["-N", slug(job.name, torque ? 15 : 60)],
    ...(torque ? torqueSize(job) : proSize(job)),
    ["-l", limits.time && `walltime=${walltime(limits.time)}`],
    ["-l", torque && limits.qos ? `qos=${limits.qos}` : ""],
    ["-q", limits.partition],
    ["-A", limits.account],
    [torque ? "-t" : "-J", array ? `0-${array.last}${array.atOnce ? `%${array.atOnce}` : ""}` : ""],
    ["-j", "oe"],
    // Output goes to our own file at once; PBS writes its messages beside it.
    ["-o", /^[\w./-]+$/.test(pbsLogs(job)) ? `${pbsLogs(job)}/` : ""],
    ["-r", ending.requeue || array && !torque ? "y" : "n"], // PBS Pro takes no array that can't run again
    ["-M", site.mail],
    ["-m", site.mail && mailWhen(site.mailType)],
  ];
  return [
    ...lines.filter(([, value]) => value !== "").map(([name, value]) => pbsLine(name, value)),
    ...(torque && limits.exclusive ? ["#PBS -n"] : []),
    ...limits.more.map(pbsOption),
    ...(site.passed.length > 0 ? [pbsLine("-v", [...listed, ...site.passed].join())] : []),
  ];

  function proSize({ layout: { nodes, gpusPerNode, gpuType, cpusPerRank }, limits, site }: ScriptJob) {
    const { perNode, cpus } = tasksOf(layout);
    const chunk = [
      `select=${nodes}`,
      `ncpus=${perNode * cpus}`,
      `mpiprocs=${perNode}`,
      `ompthreads=${cpusPerRank}`,
      gpusPerNode > 0 && `ngpus=${gpusPerNode}`,
      gpuType && `gpu_type=${gpuType}`,
      Number.parseInt(limits.mem) > 0 && `mem=${memory(limits.mem)}`,
      limits.constraint,
    ].filter((part) => part);
    const place = site.pbs.place || (nodes > 1 ? "scatter" : limits.exclusive ? "pack" : "");
    return [
      ["-l", chunk.join(":")],
      ["-l", place && `place=${place}${limits.exclusive && !/excl/.test(place) ? ":excl" : ""}`],
    ] as [string, string][];
  }
}

function torqueSize({ layout, limits }: ScriptJob): [string, string][] {
  const { nodes, gpusPerNode } = layout;
  const { perNode, cpus } = tasksOf(layout);
  const node = [
    `nodes=${nodes}`,
    `ppn=${perNode * cpus}`,
    gpusPerNode > 0 && `gpus=${gpusPerNode}`,
    limits.constraint,
  ].filter((part) => part).join(":");
  const bytes = Number.parseInt(limits.mem);
  return [["-l", node], [
    "-l",
    bytes > 0 ? `mem=${memory(limits.mem.replace(/^\d+/, String(bytes * nodes)))}` : "",
  ]];
}

/** SLURM reads a number alone as megabytes. */
const memory = (mem: string): string =>
  mem.replace(
    /^(\d+)([KMGT]?).*$/i,
    (_, count: string, unit: string) => `${count}${unit.toLowerCase() || "m"}b`,
  );

/** "2-04" and "2-04:30:00" become hours; PBS reads other forms itself. */
export function walltime(time: string): string {
  const [, days, clock] = /^(\d+)-(.*)$/.exec(time) ?? [];
  if (days === undefined) return time;
  const [hours, minutes = "0", seconds = "0"] = clock.split(":");
  const two = (text: string) => text.padStart(2, "0");
  return `${Number(days) * 24 + Number(hours)}:${two(minutes)}:${two(seconds)}`;
}

/** SLURM's words become PBS's letters. */
function mailWhen(types: string): string {
  const letters: Record<string, string> = {
    BEGIN: "b",
    END: "e",
    FAIL: "a",
    REQUEUE: "a",
    ALL: "abe",
    NONE: "n",
  };
  const all = types.toUpperCase().split(",").map((type) => letters[type.trim()] ?? "a").join("");
  return [...new Set(all)].sort().join("");
}

function refuseForeign({ limits, site }: ScriptJob): void {
  const { qos, exclude, reservation } = limits;
  const foreign = [
    [
      exclude,
      "exclude",
      "PBS has no list of nodes to stay away from: --constraint or --qsub-arg say what is wanted.",
    ],
    [reservation, "reservation", "In PBS a reservation is a queue: give its name to --partition."],
    [site.pbs.dialect === "pro" ? qos : "", "qos", "PBS Pro has no such thing: --partition names the queue."],
  ].find(([value]) => value !== "");
  if (!foreign) return;
  throw new UserError("usage", `cluster.${foreign[1]} (--${foreign[1]}) is SLURM's. ${foreign[2]}`);
}

/** PBS shows output only after the job has ended. */
function output(job: ScriptJob): string[] {
  const logs = quote(pbsLogs(job)), to = job.ending.openMode === "append" ? ">>" : ">";
  return [
    "",
    'cd -- "${PBS_O_WORKDIR:?is not set. Submit this script with qsub}" || exit 7',
    `mkdir -p -- ${logs}`,
    `output=${logs}/${slug(job.name)}.$PBS_JOBID.out`,
    ...(job.words[0] === "train" ? ["started_before=$([[ -s $output ]] && echo yes)"] : []),
    `exec ${to}"$output" 2${job.errFile ? `${to}"\${output%.out}.err"` : ">&1"}`,
  ];
}

/** A requeued job and its successor continue the same run. */
function again({ words }: ScriptJob): string[] {
  if (words[0] !== "train") return [];
  return [
    "",
    "# Started again after its node was lost, or instead of a job that was stopped: it goes on.",
    'if [[ -n $started_before || -n ${HPCTRAIN_RESTARTS:-} ]]; then set -- "$@" --resume=auto; fi',
  ];
}

const goesBack = ({ ending, array }: ScriptJob): boolean => ending.requeue && !array;

/** Only operators may requeue under PBS, so a stopped job submits the next one. */
function ending(job: ScriptJob): string[] {
  const { ending: { maxRequeues }, overrides, site: { passed } } = job;
  if (!goesBack(job)) return ["", 'exit "$code"'];
  const names = [...OF_THE_SIZE, ...overrides.map(([variable]) => variable), ...passed, '"${!HPCTRAIN_@}"'];
  return [
    "",
    "# 75: it stopped on request, with a checkpoint to go on from.",
    "restarts=${HPCTRAIN_RESTARTS:-0}",
    `if [[ -s $HPCTRAIN_ENDED ]]; then echo "No next job is submitted: $(<"$HPCTRAIN_ENDED")."`,
    `elif ((code == 75 && restarts < ${maxRequeues})); then`,
    "  variables=HPCTRAIN_RESTARTS=$((restarts + 1))",
    ...wrapped("  for name in", names, "; do"),
    '    if [[ -n ${!name:-} && ! " HPCTRAIN_RESTARTS HPCTRAIN_ENDED HPCTRAIN_JOB " == *" $name "* ]]; then variables+=,$name; fi',
    "  done",
    '  if next=$(qsub -v "$variables" "$0"); then echo "Job $next goes on from the checkpoint."',
    '  else echo "The next job could not be submitted. By hand: qsub -v RESUME=auto FILE"; fi',
    "fi",
    'rm -f -- "$HPCTRAIN_ENDED"',
    'exit "$code"',
  ];
}

// The ranks start by the site's mpiexec, mpiexec of PALS, or pbsdsh.

function startPbs(job: ScriptJob): string[] {
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

/**
 * Some mpiexecs pass no environment to other nodes, and pbsdsh never does. What the job was submitted with (`site.passed`)
 * PBS itself gives to each task: it may be a secret, and `ps` shows these words.
 */
function passed({ site, inherited }: ScriptJob): string[] {
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

/** One task on each node gets its number from its starter. */
function launched(job: ScriptJob): ScriptJob {
  const [n, nodes] = [{ shell: '"$tasks"' }, { shell: '"$nodes"' }];
  const rendezvous = { shell: '"${hosts[0]}:$port"' };
  const words = ["launch", "-n", n, "--nodes", nodes, "--rendezvous", rendezvous, "--", ...job.words];
  return { ...job, words };
}

const NUMBERED =
  'bash -c "NODE_RANK=\\${OMPI_COMM_WORLD_RANK:-\\${PMI_RANK:-\\${PALS_RANKID:-0}}} exec \\"\\$@\\"" bash';

function byMpiexec(job: ScriptJob): string[] {
  const perNode = job.layout.tasks === "per-node";
  const own = perNode ? launched(job) : job;
  const starter = [PBS_ENVIRONMENT, ...(perNode ? [NUMBERED] : asCommand(job))];
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

const asCommand = ({ program: [file] }: ScriptJob) => file.includes("=") ? [AS_COMMAND] : [];

/** Two jobs on a node must not share a port. */
const PORT = "port=$((20000 + ${PBS_JOBID%%[!0-9]*} % 12000))";

const PBS_ENVIRONMENT = 'env "${environment[@]}"';
/** env takes a path with an equals sign for a variable. */
const AS_COMMAND = 'bash -c "exec \\"\\$@\\"" bash';

/**
 * A task of pbsdsh has its number in the list of nodes, no environment, and its owner's home as its folder.
 */
function byPbsdsh(job: ScriptJob): string[] {
  const own: ScriptJob = {
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
