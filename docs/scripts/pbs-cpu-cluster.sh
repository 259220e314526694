#!/bin/bash -l
# Made by hpctrain 0.1.0 with:
#   hpctrain qsub --preset cpu-cluster --config run.yaml --nodes 4 --ntasks-per-node 8 --modules openmpi
# Submit it with `qsub FILE`, or with changes: `qsub -v EPOCHS=200,LR=1e-4 FILE`.
#PBS -N cpu-cluster
#PBS -l select=4:ncpus=32:mpiprocs=8:ompthreads=4
#PBS -l place=scatter
#PBS -j oe
#PBS -o logs/pbs/
#PBS -r y

cd -- "${PBS_O_WORKDIR:?is not set. Submit this script with qsub}" || exit 7
mkdir -p -- logs/pbs
output=logs/pbs/cpu-cluster.$PBS_JOBID.out
started_before=$([[ -s $output ]] && echo yes)
exec >>"$output" 2>>"${output%.out}.err"
module load openmpi || exit 7

set -euo pipefail

# Nodes of another architecture than the one that submits need another executable.
hpctrain=./hpctrain
if [[ $(uname -m) != x86_64 ]]; then
  hpctrain+=-$(uname -m)
  if ! command -v "$hpctrain" >/dev/null; then
    echo "This node is $(uname -m), and the executable of this job is for x86_64. Put the one for $(uname -m) beside it," \
      "as $hpctrain, or ask for nodes that are x86_64 (--partition, --constraint)." >&2
    exit 7
  fi
  echo "This node is $(uname -m): the job runs $hpctrain."
fi

# The program reserves 33 GiB of address space (which is no memory) before it runs.
ulimit -S -v "$(ulimit -H -v)"
if [[ $(ulimit -v) != unlimited ]] && (($(ulimit -v) < 35651584)); then
  echo "The address space is limited to $(ulimit -v) KiB (ulimit -v), and hpctrain needs 33 GiB of it to start:" \
    "ask for a queue without that limit, or raise it where the job is submitted."
  exit 7
fi

refuse() { echo "hpctrain: $*" >&2; exit 2; }

# What the job's environment and the words after the script's name say counts more than the flags below.
given=()
for pair in DATA_TYPE=data-type DATA_PATH=data-path DATA_DIR=data-path TRAIN_SAMPLES=train-samples \
            EPOCHS=epochs BATCH_SIZE=batch-size LR=lr LEARNING_RATE=lr RESUME=resume \
            CHECKPOINT_DIR=model-dir; do
  variable=${pair%%=*}
  if [[ -n ${!variable:-} ]]; then given+=("--${pair#*=}=${!variable}"); fi
done
set -- "${given[@]}" "$@"
if (($# > 0)); then echo "Changed for this job: $*"; fi

# Started again after its node was lost, or instead of a job that was stopped: it goes on.
if [[ -n $started_before || -n ${HPCTRAIN_RESTARTS:-} ]]; then set -- "$@" --resume=auto; fi

# The run says with it how it goes on.
export HPCTRAIN_JOB='{"flags":["--nodes","4","--ntasks-per-node","8","--modules","openmpi"],"nodes":4,"ranks":8}'

# A run that is stopped by hand (the file STOP) says so here, and does not come back.
HPCTRAIN_ENDED=$(mktemp)
export HPCTRAIN_ENDED

# Nodes in the job's order; how many of them are used, and the ranks on each.
mapfile -t hosts < <(awk '!seen[$0]++' "$PBS_NODEFILE")
nodes=${#hosts[@]} tasks=8
if [[ -n ${NODES:-} ]]; then
  if [[ ! $NODES =~ ^[1-9][0-9]{0,5}$ ]]; then refuse "NODES=$NODES is no number of nodes."; fi
  if ((NODES > nodes)); then
    refuse "NODES=$NODES, and this job has $nodes nodes. Submit one that has more: hpctrain qsub makes it, with --nodes $NODES."
  fi
  if ((NODES < nodes)); then echo "NODES=$NODES of this job's $nodes nodes are used."; fi
  nodes=$NODES
fi
if [[ -n ${GPUS:-} ]]; then refuse "GPUS=$GPUS, and this job has none: unset it, or see hpctrain sbatch --gpus-per-node."; fi
environment=()
for name in PATH LD_LIBRARY_PATH PBS_JOBID HPCTRAIN_ENDED "${!HPCTRAIN_@}"; do
  if [[ -n ${!name:-} && $name != HPCTRAIN_SECRET ]]; then environment+=("$name=${!name}"); fi
done

# Each node once for each of its ranks. No rank is to be bound to a single core: it has threads.
hostfile=$(mktemp)
for host in "${hosts[@]:0:nodes}"; do
  for ((i = 0; i < tasks; i++)); do echo "$host"; done
done >"$hostfile"
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
code=0
mpiexec --hostfile "$hostfile" -n "$((nodes * tasks))" \
  env "${environment[@]}" \
  "$hpctrain" train --preset cpu-cluster --config run.yaml "$@" || code=$?
rm -f -- "$hostfile"

# 75: it stopped on request, with a checkpoint to go on from.
restarts=${HPCTRAIN_RESTARTS:-0}
if [[ -s $HPCTRAIN_ENDED ]]; then echo "No next job is submitted: $(<"$HPCTRAIN_ENDED")."
elif ((code == 75 && restarts < 100)); then
  variables=HPCTRAIN_RESTARTS=$((restarts + 1))
  for name in NODES GPUS DATA_TYPE DATA_PATH DATA_DIR TRAIN_SAMPLES EPOCHS BATCH_SIZE LR \
              LEARNING_RATE RESUME CHECKPOINT_DIR "${!HPCTRAIN_@}"; do
    if [[ -n ${!name:-} && ! " HPCTRAIN_RESTARTS HPCTRAIN_ENDED HPCTRAIN_JOB " == *" $name "* ]]; then variables+=,$name; fi
  done
  if next=$(qsub -v "$variables" "$0"); then echo "Job $next goes on from the checkpoint."
  else echo "The next job could not be submitted. By hand: qsub -v RESUME=auto FILE"; fi
fi
rm -f -- "$HPCTRAIN_ENDED"
exit "$code"
