#!/usr/bin/env bash
# A training on all GPUs of several nodes under SLURM: one torchrun per node, as one run.
#   sbatch --nodes 4 --gpus-per-node 8 examples/slurm.sh DATA --arch aiayn_big --save-dir DIRECTORY
# Without GPUs, PROCESSES says how many processes each node runs, with fairseq's --cpu:
#   PROCESSES=2 sbatch --nodes 1 examples/slurm.sh DATA --cpu …
# Submitted again, or requeued, it goes on at the last checkpoint. DATA, --save-dir and .venv have
# to be where all nodes see them.
#SBATCH --job-name=aiayn
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
# Whole nodes, or SLURM gives a job one core for all of its processes.
#SBATCH --exclusive
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?start it with sbatch, from the root of the project}"
export PATH=$PWD/.venv/bin:$PATH OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export PYTORCH_ALLOC_CONF=${PYTORCH_ALLOC_CONF:-expandable_segments:True} # as lib.sh

processes=${PROCESSES:-${SLURM_GPUS_ON_NODE:-}}
: "${processes:?no GPUs in this job: ask for them with --gpus-per-node, or set PROCESSES}"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun --ntasks-per-node=1 torchrun --nnodes "$SLURM_NNODES" --nproc_per_node "$processes" \
  --rdzv-id "$SLURM_JOB_ID" --rdzv-backend c10d --rdzv-endpoint "$first:${PORT:-29500}" \
  "$(command -v fairseq-train)" "$@" --user-dir aiayn_plugin
