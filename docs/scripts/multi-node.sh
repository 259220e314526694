#!/bin/bash
# Made by hpctrain 0.1.0 with:
#   hpctrain sbatch --preset multi-node --config run.yaml --nodes 2 --gpus-per-node 4 --time 04:00:00
# Submit it with `sbatch FILE`, or with changes: `sbatch --export=ALL,EPOCHS=200,LR=1e-4 FILE`.
#SBATCH --job-name=multi-node
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=logs/slurm/%x_%j.out
#SBATCH --error=logs/slurm/%x_%j.err
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
#SBATCH --requeue

: "${SLURM_JOB_ID:?is not set. Submit this script with sbatch}"

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

# Its own options sbatch reads before the file; behind it they are the program's words.
words=()
while (($# > 0)); do
  word=$1
  shift
  case ${word%%=*} in
    --export)
      if [[ $word != *=* ]]; then word+="=${1:-}"; shift; fi
      names=()
      IFS=, read -r -a pairs <<<"${word#*=}"
      for pair in "${pairs[@]}"; do
        if [[ $pair =~ ^[A-Za-z_][A-Za-z0-9_]*= ]]; then export "${pair?}"; names+=("${pair%%=*}"); fi
      done
      echo "hpctrain: --export stands after the file, where sbatch does not read it: the job itself sets ${names[*]:-nothing} by" \
        "it. It belongs before the file: sbatch --export=ALL,NAME=VALUE FILE" ;;
    --account | --array | --begin | --constraint | --cpus-per-task | --dependency | --exclude | \
    --exclusive | --gpus | --gpus-per-node | --gpus-per-task | --gres | --job-name | --mail-type | \
    --mail-user | --mem | --nodelist | --nodes | --ntasks | --ntasks-per-node | --open-mode | \
    --output | --partition | --qos | --requeue | --reservation | --signal | --time | -[A-Za-z])
      if [[ $word != *=* && ${1:--} != -* ]]; then word+=" $1"; fi
      refuse "$word stands after the file, where sbatch does not read it. Submit it so: sbatch $word FILE" ;;
    *) words+=("$word") ;;
  esac
done
set -- "${words[@]}"

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

# What ranks of this job, and nobody else, know each other by.
HPCTRAIN_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export HPCTRAIN_SECRET

# The run says with it how it goes on.
export HPCTRAIN_JOB='{"flags":["--nodes","2","--gpus-per-node","4","--time","04:00:00"],"nodes":2,"ranks":4}'

# A run that is stopped by hand (the file STOP) says so here, and does not come back.
HPCTRAIN_ENDED=$(mktemp)
export HPCTRAIN_ENDED

nodes=$SLURM_JOB_NUM_NODES tasks=${SLURM_GPUS_ON_NODE:-4} # on each node
cpus=$SLURM_CPUS_PER_TASK # of each rank
if [[ -n ${NODES:-} ]]; then
  if [[ ! $NODES =~ ^[1-9][0-9]{0,5}$ ]]; then refuse "NODES=$NODES is no number of nodes."; fi
  if ((NODES > nodes)); then
    refuse "NODES=$NODES, and this job has $nodes nodes. Submit one that has more: sbatch --nodes=$NODES FILE"
  fi
  if ((NODES < nodes)); then echo "NODES=$NODES of this job's $nodes nodes are used."; fi
  nodes=$NODES
fi
if [[ -n ${GPUS:-} ]]; then
  if [[ ! $GPUS =~ ^[1-9][0-9]{0,5}$ ]]; then refuse "GPUS=$GPUS is no number of GPUs on each node."; fi
  if ((GPUS > tasks)); then
    refuse "GPUS=$GPUS, and this job has $tasks GPUs on each node. Submit one that has more: sbatch --gpus-per-node=$GPUS --ntasks-per-node=$GPUS FILE"
  fi
  if ((GPUS < tasks)); then echo "GPUS=$GPUS of this job's $tasks GPUs on each node are used."; fi
  tasks=$GPUS
fi
if ((tasks * cpus > ${SLURM_CPUS_ON_NODE:-tasks * cpus})); then
  if ((tasks > SLURM_CPUS_ON_NODE)); then
    refuse "$tasks ranks on each node, and this job has $SLURM_CPUS_ON_NODE cores there: sbatch --ntasks-per-node=$tasks FILE"
  fi
  cpus=$((SLURM_CPUS_ON_NODE / tasks))
  echo "$tasks ranks share the $SLURM_CPUS_ON_NODE cores that this job has on each node, $cpus each; for" \
    "$SLURM_CPUS_PER_TASK each: sbatch --ntasks-per-node=$tasks FILE"
fi
code=0
srun --export=ALL --nodes="$nodes" --ntasks="$((nodes * tasks))" --ntasks-per-node="$tasks" \
  --cpus-per-task="$cpus" --kill-on-bad-exit=1 \
  "$hpctrain" train --preset multi-node --config run.yaml "$@" || code=$?

# 75: it stopped on request, with a checkpoint to go on from.
if [[ -s $HPCTRAIN_ENDED ]]; then echo "Not going back to the queue: $(<"$HPCTRAIN_ENDED")."
elif ((code == 75 && ${SLURM_RESTART_COUNT:-0} < 100)); then
  echo "Going back to the queue, to go on from the checkpoint."
  scontrol requeue "$SLURM_JOB_ID" || echo "That failed. By hand: sbatch FILE --resume auto"
fi
rm -f -- "$HPCTRAIN_ENDED"
exit "$code"
