// What launchers put into the environment of one rank: recorded from them, but for PALS.

export type Variables = Record<string, string>;

/** Eight tasks on two nodes by srun: sbatch --nodes=2 --ntasks-per-node=4 (SLURM 22.05). */
export const srun = (rank: number, more: Variables = {}): Variables => ({
  SLURM_JOB_ID: "42",
  SLURM_JOB_NODELIST: "node[1-2]",
  SLURM_NODELIST: "node[1-2]",
  SLURM_JOB_NUM_NODES: "2",
  SLURM_NNODES: "2",
  SLURM_NTASKS: "8",
  SLURM_NPROCS: "8",
  SLURM_TASKS_PER_NODE: "4(x2)",
  SLURM_STEP_ID: "0",
  SLURM_STEPID: "0",
  SLURM_STEP_NODELIST: "node[1-2]",
  SLURM_STEP_NUM_NODES: "2",
  SLURM_STEP_NUM_TASKS: "8",
  SLURM_STEP_TASKS_PER_NODE: "4(x2)",
  SLURM_PROCID: String(rank),
  SLURM_LOCALID: String(rank % 4),
  SLURM_NODEID: String(Math.floor(rank / 4)),
  SLURM_GPUS_ON_NODE: "4",
  CUDA_VISIBLE_DEVICES: "0,1,2,3",
  ...more,
});

/** The batch script of that job: no step, and SLURM_PROCID is 0 all the same. */
export const sbatch = (): Variables => {
  const { SLURM_STEP_ID: _, SLURM_STEPID: __, ...rest } = srun(0);
  return Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith("SLURM_STEP_")));
};

/** Rank 5 of mpiexec -n 6 (MPICH 5.0.2) in that job: hydra's proxies are a step of two tasks. */
export const hydraInSlurm = (): Variables => ({
  ...srun(1),
  SLURM_NTASKS: "2",
  SLURM_NPROCS: "2",
  SLURM_TASKS_PER_NODE: "1(x2)",
  SLURM_STEP_NUM_TASKS: "2",
  SLURM_STEP_TASKS_PER_NODE: "1(x2)",
  SLURM_LOCALID: "0",
  SLURM_NODEID: "1",
  MPI_LOCALNRANKS: "2",
  MPI_LOCALRANKID: "1",
  PMI_FD: "6",
  PMI_HOSTNAME: "node2",
  PMI_RANK: "5",
  PMI_SIZE: "6",
});

/** mpirun -n 2 of Open MPI 5.0.11. */
export const mpirun = (rank: number, more: Variables = {}): Variables => ({
  OMPI_COMM_WORLD_LOCAL_RANK: String(rank),
  OMPI_COMM_WORLD_LOCAL_SIZE: "2",
  OMPI_COMM_WORLD_NODE_RANK: String(rank),
  OMPI_COMM_WORLD_RANK: String(rank),
  OMPI_COMM_WORLD_SIZE: "2",
  OMPI_UNIVERSE_SIZE: "2",
  OMPI_VERSION: "5.0.11",
  PMIX_HOSTNAME: "here",
  PMIX_RANK: String(rank),
  PRTE_LAUNCHED: "1",
  ...more,
});

/** mpiexec -n 2 of MPICH 5.0.2 (hydra; Intel MPI's is its child). */
export const hydra = (rank: number, more: Variables = {}): Variables => ({
  HYDI_CONTROL_FD: "7",
  MPI_LOCALNRANKS: "2",
  MPI_LOCALRANKID: String(rank),
  PMI_FD: "9",
  PMI_HOSTNAME: "here",
  PMI_RANK: String(rank),
  PMI_SIZE: "2",
  ...more,
});

/** mpiexec.gforker -n 2 of MPICH 5.0.2: one host, no local rank. */
export const gforker = (rank: number): Variables => ({
  MPI_APPNUM: "0",
  MPI_UNIVERSE_SIZE: "-1",
  PMI_DEBUG: "0",
  PMI_FD: "8",
  PMI_RANK: String(rank),
  PMI_SIZE: "2",
});

/** mpiexec --ppn 4 -n 8 of Cray's PALS in a PBS job, as sites document it. */
export const pals = (rank: number): Variables => ({
  PBS_JOBID: "42.server",
  PALS_RANKID: String(rank),
  PALS_NODEID: String(Math.floor(rank / 4)),
  PALS_LOCAL_RANKID: String(rank % 4),
  PALS_LOCAL_SIZE: "4",
  PMI_RANK: String(rank),
  PMI_SIZE: "8",
  PMI_LOCAL_RANK: String(rank % 4),
  PMI_LOCAL_SIZE: "4",
});

/** torchrun --nproc-per-node 2 of PyTorch 2.15. */
export const torchrun = (rank: number, more: Variables = {}): Variables => ({
  GROUP_RANK: "0",
  GROUP_WORLD_SIZE: "1",
  LOCAL_RANK: String(rank),
  LOCAL_WORLD_SIZE: "2",
  MASTER_ADDR: "localhost",
  MASTER_PORT: "46493",
  RANK: String(rank),
  ROLE_RANK: String(rank),
  ROLE_WORLD_SIZE: "2",
  TORCHELASTIC_RUN_ID: "534a9ddc-b659-4272-bb4c-93a31142718f",
  TORCHELASTIC_USE_AGENT_STORE: "True",
  WORLD_SIZE: "2",
  ...more,
});

/** PBS_NODEFILE of two nodes with four slots each. */
export const PBS_NODES = [
  ...Array(4).fill("x1000c0.site.example"),
  ...Array(4).fill("x1000c1.site.example"),
  "",
];
